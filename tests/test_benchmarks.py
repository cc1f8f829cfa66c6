"""What the benchmark of planted faults is made of; running it takes long."""

import json
import subprocess
import sys

import pytest
from judge import ANYHOW, MISSED, RIGHT, UNCLEAR, Run, judge
from suite import Unfit, Variant, foreign, own_faults, own_healthy

NO_FAULT_OF_ITS_OWN = {"breakpoint", "checklist", "watch"}  # watch lasts as long as a training; its own tests have some
FAULT = Variant(id="f", what="", items=["trace", "learning"], place=[r"net\.extra", "gradient"])


def verdict(status: str, *findings: dict[str, str], skipped: str | None = None) -> dict:
    return {"verdict": status, "findings": list(findings), "skipped": skipped, "seen": ""}


def found(what: str, where: str) -> dict[str, str]:
    return {"what": what, "where": where}


def test_every_change_fits_the_template(template):
    command = [sys.executable, template / "benchmarks" / "faults" / "run.py", "--check"]
    finished = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_every_item_has_faults(template):
    checklist = template / "packages/training-checklist/src/training_checklist"
    options = {path.stem for path in (checklist / "conf" / "debug").glob("*.yaml")}
    assert {fault.items[0] for fault in own_faults()} == options - NO_FAULT_OF_ITS_OWN


def test_names_are_unique():
    names = [each.id for each in own_faults() + own_healthy()]
    assert len(names) == len(set(names))


def test_change_that_does_not_fit_is_an_error(tmp_path):
    (tmp_path / "train.py").write_text("a = 1\na = 1\n")
    for text in ("a = 1", "b"):
        with pytest.raises(Unfit, match=r"train\.py has .* times, not once"):
            Variant(id="f", what="", patch={"train.py": {text: ""}}).files(tmp_path)


@pytest.mark.parametrize(
    ("items", "status", "place"),
    [
        ({"trace": verdict("failed", found("no gradient", "net.extra"))}, RIGHT, True),
        ({"trace": verdict("passed"), "learning": verdict("warning", found("gradient", "net.extra"))}, RIGHT, True),
        ({"trace": verdict("failed", found("no gradient", "net.head"), found("odd", "net.extra"))}, ANYHOW, False),
        ({"trace": verdict("passed"), "overfit": verdict("failed", found("no gradient", "net.extra"))}, ANYHOW, False),
        ({"trace": verdict("passed")}, MISSED, False),
        ({"trace": verdict("skipped", skipped="no step")}, UNCLEAR, False),
    ],
)
def test_catch_needs_the_right_item_and_the_place(items, status, place):
    outcome = judge(FAULT, Run(items, "", 0, 1.0), quiet={"trace", "learning", "overfit"})
    assert (outcome.status, outcome.place) == (status, place)


def test_item_that_is_never_silent_catches_nothing():
    run = Run({"trace": verdict("failed", found("no gradient", "net.extra"))}, "", 1, 1.0)
    assert judge(FAULT, run, quiet=set()).status == MISSED


def test_faults_of_another_project_are_read(tmp_path):
    change = {"patch": [{"file": "a.py", "find": "b", "replace": "c"}], "overrides": ["d=1"], "write": {}}
    entry = {"id": "X", "item": "trace / learning", "silent": True, "description": "", "where": "net.fc gets 3"}
    content = {"faults": [entry | {"mutation": change}], "healthy": []}
    (tmp_path / "f.json").write_text(json.dumps(content), encoding="utf-8")
    [fault], _ = foreign(tmp_path / "f.json")
    assert (fault.items, fault.patch, fault.place) == (["trace", "learning"], {"a.py": {"b": "c"}}, [r"net\.fc"])
