"""The commands that benchmarks/gpu runs where there is a GPU: whether they are commands of this project."""

import json
from pathlib import Path

import pytest

GPU = Path(__file__).parents[2] / "benchmarks" / "gpu"
FOUND = {"verdict": "failed", "findings": [{"what": "found", "where": ""}], "skipped": None}


@pytest.fixture
def commands(root, tmp_path, monkeypatch):
    """Every command of every part, none of which was run: what they leave behind is made up."""
    monkeypatch.syspath_prepend(GPU)
    import parts
    from bench import Bench, Finished

    ran: list[tuple[str, ...]] = []

    class Told(Bench):
        def python(self, *words, **options):
            ran.append(tuple(map(str, words)))
            for word in ran[-1]:
                if word.startswith("+callbacks.peak.path="):
                    Path(word.partition("=")[2]).write_text(json.dumps({"peak": 2**30}), encoding="utf-8")
            return Finished("", 0, json.dumps({"data": "", "rows": []}), 1.0)

        def keep(self, path, name):
            pass

    finished = {"state": "finished", "starts": [{}, {}], "metrics": {"test/accuracy": 0.9}}
    saved = {"MixedPrecision": {"scale": 32768.0, "_growth_tracker": 0}, "state_dict": {}, "optimizer_states": []}
    said = {name: FOUND for name in ("device", "overflow", "trace")} | {
        "memory": FOUND | {"facts": {"predicted_gb": 1.0}}
    }
    monkeypatch.setattr(parts, "record", lambda run: finished)
    monkeypatch.setattr(parts, "checkpoint", lambda path: saved)
    monkeypatch.setattr(parts, "verdicts", lambda run: said)
    monkeypatch.setattr(parts.faults().Variant, "copy", lambda variant, project, folder: None)
    bench = Told("cuda", root, tmp_path, tmp_path, end=0.0, jobs=2)
    for part in parts.PARTS:
        bench.part = part.name
        assert all(row.verdict != "failed" for row in part.run(bench)), part.name
    return ran


def test_every_command_is_one_of_this_project(commands, compose):
    trainings = [words[1:] for words in commands if words[0] == "train.py" and not words[1].startswith("resume=")]
    assert len(trainings) > 30
    for overrides in {tuple(each for each in words if not each.startswith("hydra.run")) for words in trainings}:
        compose(*overrides)  # an error where a key or an option is none of this project


def test_no_training_is_sent_to_the_cpu_where_there_is_a_gpu(commands):
    assert not any("accelerator=cpu" in word for words in commands if words[0] == "train.py" for word in words)
