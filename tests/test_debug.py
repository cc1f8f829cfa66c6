"""Debug items that need processes of their own, as the command line starts them."""

import json
from pathlib import Path

import pytest
from faulty.commands import Commands, Finished

FAULT = "+callbacks.fault._target_=faulty.planted.PlantedFailure"
PLAIN = Path(__file__).parent / "faulty" / "plain.py"
# Whoever says how ranks begin gets new interpreters, from the project's own launcher or from Lightning's.
NOT_FORKED = (
    "+trainer.strategy._target_=pytorch_lightning.strategies.DDPStrategy",
    "+trainer.strategy.start_method=popen",
)


pytestmark = pytest.mark.usefixtures("no_leftovers")


def distributed(commands: Commands, folder: Path, script: Path, *fault: str) -> tuple[Finished, dict]:
    """Run +debug=distributed; how the command ended, and the item in its report."""
    overrides = ("data=mnist_sample", "callbacks=[checkpoint]", "+debug=distributed", *fault)
    finished = commands.run(folder, script, *overrides)
    reports = list(folder.glob("outputs/**/debug/report.json"))
    assert len(reports) == 1, finished.output
    [item] = json.loads(reports[0].read_text(encoding="utf-8"))["items"]
    return finished, item


def planted(kind: str) -> tuple[str, str]:
    return FAULT, f"+callbacks.fault.kind={kind}"


@pytest.mark.slow
@pytest.mark.parametrize("start", [(), ("trainer=ddp",), NOT_FORKED])
def test_distributed_passes_on_the_default_project(commands, tmp_path, start):
    finished, item = distributed(commands, tmp_path, commands.project / "train.py", *start)
    assert (finished.code, item["verdict"], item["findings"]) == (0, "passed", []), finished.output
    assert "rank 0 of 2 OK: all-reduce 3" in finished.output
    assert "rank 1 of 2 OK: all-reduce 3" in finished.output
    assert not list(tmp_path.glob("outputs/**/debug/.*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("constructor_raise_1", "planted: constructor_raise_1"),
        ("batch_raise_0", "planted: batch_raise_0"),
        ("batch_kill_1", "rank 1 was ended by SIGKILL"),
        ("batch_kill_0", "rank 0 has ended without a word"),
    ],
)
def test_distributed_names_the_rank_that_fails(commands, tmp_path, kind, what):
    finished, item = distributed(commands, tmp_path, commands.project / "train.py", *planted(kind))
    assert (finished.code, item["verdict"]) == (1, "failed"), finished.output
    assert what in item["findings"][0]["what"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "what"),
    [
        ("batch_kill_1", 1, "rank 1 was ended by SIGKILL"),
        ("batch_kill_0", 1, "rank 0 has ended without a word"),
        ("batch_raise_1", 1, "planted: batch_raise_1"),
    ],
)
def test_distributed_names_the_rank_that_fails_where_lightning_starts_them(commands, tmp_path, kind, code, what):
    finished, item = distributed(commands, tmp_path, PLAIN, *NOT_FORKED, *planted(kind))
    assert finished.code == code, finished.output
    assert what in item["findings"][0]["what"]
    assert what in finished.output
