"""Settings of one machine: they beat the defaults, are beaten by what a command says, and git does not see them."""

import subprocess

import pytest
import yaml
from documentation import follow


@pytest.fixture(scope="module")
def settled(generate, install, tmp_path_factory):
    """A project with the personal settings of the page."""
    project = install(generate(tmp_path_factory.mktemp("personal")))
    follow((project.folder / "docs/development.md").read_text(encoding="utf-8"), project.folder)
    return project


@pytest.mark.parametrize(
    ("said", "data_dir"),
    [
        ([], "/scratch/data"),
        (["data_dir=elsewhere"], "elsewhere"),
        (["+experiment=mine"], "/of/the/experiment"),
    ],
)
def test_personal_settings_beat_the_defaults_and_are_beaten_by_what_a_command_says(settled, said, data_dir):
    mine = "# @package _global_\ndata_dir: /of/the/experiment\n"
    (settled.folder / "conf/experiment/mine.yaml").write_text(mine, encoding="utf-8")
    finished = settled.run("train.py", *said, "--cfg", "job")
    cfg = yaml.safe_load(finished.stdout)
    assert (cfg["data_dir"], cfg["no_progress_minutes"]) == (data_dir, 30)


def test_git_does_not_see_personal_settings(settled):
    seen = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], cwd=settled.folder, capture_output=True, encoding="utf-8"
    )
    assert "conf/train.yaml" in seen.stdout
    assert "conf/local" not in seen.stdout
