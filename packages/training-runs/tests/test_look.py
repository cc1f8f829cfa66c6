"""Where the last lines of a run send its user to look."""

import re

import pytest
from training_runs.loggers import CSVLogger, TensorBoardLogger
from training_runs.loggers.look import look


@pytest.mark.parametrize("loggers", ["csv", "[csv,tensorboard]"])
def test_run_ends_with_where_its_logger_has_written(train, tmp_path, capsys, monkeypatch, loggers):
    run = train(f"logger={loggers}").relative_to(tmp_path)
    [shown] = re.findall(r"^  look +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert shown == ("tensorboard --logdir outputs" if "tensorboard" in loggers else f"{run}/csv/metrics.csv")
    assert loggers != "csv" or (tmp_path / shown).is_file()


def test_table_is_named_only_where_there_is_nothing_else(tmp_path):
    csv, board = (kind(save_dir=tmp_path, name="", version="") for kind in (CSVLogger, TensorBoardLogger))
    assert look([csv, board], tmp_path) == f"tensorboard --logdir {tmp_path}"
    assert look([csv], tmp_path) == f"{tmp_path}/metrics.csv"
    assert look([], tmp_path) is None
