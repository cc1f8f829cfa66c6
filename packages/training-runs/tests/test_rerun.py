import json
import shutil

import pytest
from training_runs.records.rerun import compare, describe
from training_runs.records.runs import read_config, read_record


@pytest.fixture
def refused(train_as_given, tmp_path, capsys):
    """`refused(*overrides)`: what the command line says to overrides that it does not take."""

    def run(*overrides: str) -> str:
        with pytest.raises(SystemExit):
            train_as_given(*overrides)
        assert not list(tmp_path.glob("outputs/**/run.json"))
        return capsys.readouterr().err

    return run


def test_rerun_comes_to_the_same_metrics_and_says_so(tiny, train_as_given, capsys):
    run = train_as_given(f"rerun='{tiny.as_posix()}'")
    assert read_record(run)["metrics"] == read_record(tiny)["metrics"]
    assert read_record(run)["rerun"] == {"of": str(tiny), "agrees": True, "metrics": {}, "circumstances": {}}
    assert "all metrics agree to the last digit" in capsys.readouterr().out
    assert "all metrics agree to the last digit" in (run / "report.html").read_text(encoding="utf-8")
    # eval.py rebuilds the model from this.
    ours, theirs = read_config(run), read_config(tiny)
    ours.rerun, ours.output_dir = theirs.rerun, theirs.output_dir
    assert ours == theirs


def test_metrics_and_circumstances_that_differ_are_listed(tiny, tmp_path):
    record = read_record(tiny)
    record["metrics"]["test/accuracy"] += 0.5
    record["packages"]["torch"] = "1.0.0"
    record["git"] = {"commit": "abc", "dirty": True}
    outcome = compare(tiny, record)
    assert not outcome["agrees"]
    assert outcome["metrics"].keys() == {"test/accuracy"}
    lines = describe(outcome)
    assert lines["rerun"] == "1 of 6 metrics differ"
    assert lines["  packages.torch"].endswith("then, 1.0.0 now")
    assert lines["  git.dirty"].endswith("then, True now")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metrics": {}, "state": "interrupted"}, {"rerun": "nothing to compare with: that run is interrupted"}),
        ({"seed": None}, {"  seed": "null: every run draws its own"}),
        ({"git": {"commit": "abc", "dirty": True}}, {"  git": "changes that were not committed"}),
    ],
)
def test_run_that_cannot_be_repeated_exactly_is_named_with_the_reason(tiny, tmp_path, changes, said):
    (tmp_path / "run.json").write_text(json.dumps(read_record(tiny) | changes), encoding="utf-8")
    lines = describe(compare(tmp_path, read_record(tiny)))
    for name, part in said.items():
        assert part in lines[name]


def test_other_values_beside_a_rerun_are_refused(tiny, refused):
    told = refused(f"rerun='{tiny.as_posix()}'", "optimizer.lr=1")
    assert "takes every value from that run; take optimizer.lr=1 away" in told


def test_rerun_of_what_is_no_run_is_refused(refused):
    assert "rerun=nowhere is not the directory of a run: it has no run.json; try rerun=last" in refused("rerun=nowhere")


def test_rerun_of_a_debug_item_is_refused_with_its_command(tiny, tmp_path_factory, refused):
    run = tmp_path_factory.mktemp("debugged") / "run"
    shutil.copytree(tiny, run)
    (run / "debug").mkdir()
    (run / "debug" / "report.json").write_text("{}", encoding="utf-8")
    assert "was started with +debug=, whose findings need its command: python train.py" in refused(f"rerun={run}")
