import csv
from pathlib import Path

import pytest
from training_runs.loggers import CSVLogger


def logged(folder: Path, rewind: int | None, *rows: dict) -> list[dict[str, str]]:
    """What metrics.csv has after a process has logged `rows`: {step: ..., name: value}."""
    logger = CSVLogger(folder, name="csv", version="")
    if rewind is not None:
        logger.rewind(rewind)
    for row in rows:
        logger.log_metrics({name: value for name, value in row.items() if name != "step"}, row["step"])
    logger.save()
    with (folder / "csv" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def first(tmp_path) -> list[dict[str, str]]:
    return logged(tmp_path, 0, {"step": 0, "loss": 3}, {"step": 1, "loss": 2}, {"step": 2, "loss": 1, "late": 7})


def test_rows_after_the_checkpoint_are_forgotten_and_the_others_kept(first, tmp_path):
    assert logged(tmp_path, 2, {"step": 2, "loss": 5}) == [
        {"loss": "3", "step": "0"},
        {"loss": "2", "step": "1"},
        {"loss": "5", "step": "2"},
    ]


def test_new_metrics_leave_the_old_rows(first, tmp_path):
    last = logged(tmp_path, None, {"step": 3, "accuracy": 0.5})
    assert [row["loss"] for row in last] == ["3", "2", "1", ""]
    assert [row["accuracy"] for row in last] == ["", "", "", "0.5"]


def test_half_a_row_is_no_row(first, tmp_path):
    with (tmp_path / "csv" / "metrics.csv").open("a", encoding="utf-8") as file:
        file.write(",4,")
    assert logged(tmp_path, 3, {"step": 3, "loss": 0, "late": 8}) == [*first, {"late": "8", "loss": "0", "step": "3"}]


@pytest.mark.parametrize("line", ["3\n", ",,\n", "1,2,3,4,5\n", "a,b,c\n", "\0\0\0\n", "\udcff\n"])
def test_line_that_is_complete_and_too_short_too_long_or_rubbish_is_no_row(line, first, tmp_path):
    with (tmp_path / "csv" / "metrics.csv").open("ab") as file:
        file.write(line.encode("utf-8", errors="surrogateescape"))
    assert logged(tmp_path, 3, {"step": 3, "loss": 0, "late": 8}) == [*first, {"late": "8", "loss": "0", "step": "3"}]


def test_a_run_that_begins_finds_nothing(first, tmp_path):
    assert logged(tmp_path, 0, {"step": 0, "loss": 9}) == [{"loss": "9", "step": "0"}]
