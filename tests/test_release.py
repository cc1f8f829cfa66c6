"""The workflow that publishes the libraries, as far as it can be held against what is here without publishing."""

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TEMPLATE = Path(__file__).parents[1]
WORKFLOW = (TEMPLATE / ".github/workflows/release.yml").read_text(encoding="utf-8")
VERSIONS = {
    path.parent.name: re.search(r'^version = "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE).group(1)
    for path in sorted(TEMPLATE.glob("packages/*/pyproject.toml"))
}


def release(tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, TEMPLATE / "packages/release.py", tag]
    return subprocess.run(command, capture_output=True, encoding="utf-8")


@pytest.mark.parametrize("name", VERSIONS)
def test_tag_of_the_version_that_is_here_starts_a_release_of_its_library(name):
    [pattern] = yaml.safe_load(WORKFLOW)[True]["push"]["tags"]  # YAML 1.1 reads the key `on` as true
    assert fnmatch.fnmatch(f"{name}-v{VERSIONS[name]}", pattern)
    assert release(f"{name}-v{VERSIONS[name]}").stdout == f"folder=packages/{name}\n"


@pytest.mark.parametrize("tag", ["training-runs-v9.9.9", "training-other-v0.2.0", "training-runs-v0.2.0+src0"])
def test_tag_of_anything_else_is_refused(tag):
    finished = release(tag)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert f"{tag} names no version that is in packages/" in finished.stderr


def test_only_the_job_that_uploads_can_publish_and_it_waits_for_the_tests():
    workflow = yaml.safe_load(WORKFLOW)
    publish = workflow["jobs"].pop("publish")
    assert (publish["needs"], publish["environment"]) == ("test", "pypi")
    assert publish["permissions"] == {"contents": "read", "id-token": "write"}
    assert workflow["permissions"] == {"contents": "read"}
    assert [job for job in workflow["jobs"].values() if "permissions" in job or "environment" in job] == []


def test_actions_are_those_that_the_tests_run_with_pinned_by_commit():
    tested = (TEMPLATE / ".github/workflows/test.yml").read_text(encoding="utf-8")
    used = set(re.findall(r"uses: (.*)", WORKFLOW))
    assert used <= set(re.findall(r"uses: (.*)", tested))
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40}  # v[\d.]+", action) for action in used)
