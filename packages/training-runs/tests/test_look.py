"""Where the last lines of a run send its user to look."""

import re

import pytest
from pytorch_lightning.loggers import MLFlowLogger
from training_runs.loggers import CSVLogger, TensorBoardLogger
from training_runs.loggers.look import look


@pytest.mark.parametrize("loggers", ["csv", "[csv,tensorboard]"])
def test_run_ends_with_where_its_logger_has_written(train, tmp_path, capsys, monkeypatch, loggers):
    run = train(f"logger={loggers}").relative_to(tmp_path)
    [shown] = re.findall(r"^  look +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert shown == ("tensorboard --logdir outputs" if "tensorboard" in loggers else f"{run}/csv/metrics.csv")
    assert loggers != "csv" or (tmp_path / shown).is_file()


@pytest.mark.slow
def test_wandb_that_is_offline_names_the_command_that_sends_the_run(train, tmp_path, capsys):
    pytest.importorskip("wandb")
    train("logger=wandb", "logger.wandb.offline=true")
    [folder] = re.findall(r"^  look +wandb sync (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert list((tmp_path / folder).glob("*.wandb"))


@pytest.mark.slow
def test_mlflow_names_the_command_that_serves_its_file_or_the_address_of_its_server(tmp_path):
    pytest.importorskip("mlflow")
    file = f"sqlite:///{tmp_path}/mlflow.db"
    assert look([MLFlowLogger(tracking_uri=file)], tmp_path) == f"mlflow ui --backend-store-uri {file}"
    assert look([MLFlowLogger(tracking_uri="http://server:5000")], tmp_path) == "http://server:5000"


def test_every_logger_is_named_and_a_table_only_where_there_is_nothing_else(tmp_path):
    csv, board = (kind(save_dir=tmp_path, name="", version="") for kind in (CSVLogger, TensorBoardLogger))
    assert look([csv, board], tmp_path) == f"tensorboard --logdir {tmp_path}"
    assert look([csv], tmp_path) == f"{tmp_path}/metrics.csv"
    assert look([], tmp_path) is None
