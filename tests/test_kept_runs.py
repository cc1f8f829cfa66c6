"""The run on Weights & Biases or MLflow is one with the run here: offline, and in a local database."""

import json
import signal

import pytest
import yaml
from documentation import follow

SHORT = ("data=mnist_sample", "model=mlp", "trainer=cpu", "trainer.max_epochs=1", "++trainer.limit_train_batches=2")
OFFLINE = {"WANDB_MODE": "offline"}
KILLER = """import os, signal
from pytorch_lightning import Callback

class Killer(Callback):
    def on_train_epoch_end(self, *arguments):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def project(generate, install, tmp_path):
    return install(generate(tmp_path))


def record(project) -> dict:
    [path] = project.folder.glob("outputs/*/*/*/run.json")
    return json.loads(path.read_text(encoding="utf-8"))


def succeeded(finished) -> None:
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("logger", ["wandb", "mlflow"])
def test_run_that_was_killed_and_is_made_longer_is_one_run_of_its_logger(project, logger):
    (project.folder / "killer.py").write_text(KILLER, encoding="utf-8")
    killed = project.run("train.py", *SHORT, f"logger={logger}", "+callbacks.kill._target_=killer.Killer", **OFFLINE)
    assert killed.returncode == -signal.SIGKILL
    begun = record(project)["loggers"][logger]
    harmless = KILLER.replace("signal.SIGKILL", "0")  # no signal at all
    (project.folder / "killer.py").write_text(harmless, encoding="utf-8")
    for epochs in (1, 2):
        more = ("resume=last", "allow=[killer.Killer]", f"trainer.max_epochs={epochs}")
        succeeded(project.run("train.py", *more, **OFFLINE))
    assert record(project)["loggers"] == {logger: begun}
    if logger == "wandb":
        parts = [*project.folder.glob("outputs/*/*/*/wandb/offline-run-*")]
        assert len(parts) == 3
        assert {path.name.rpartition("-")[2] for path in parts} == {begun}
    else:
        from mlflow.tracking import MlflowClient

        [database] = project.folder.glob("outputs/*/*/*/mlflow.db")
        client = MlflowClient(f"sqlite:///{database.as_posix()}")
        [run] = client.search_runs([each.experiment_id for each in client.search_experiments()])
        assert (run.info.run_id, run.info.status) == (begun, "FINISHED")
        assert {each.step for each in client.get_metric_history(begun, "val/loss")} == {1, 3}


def test_agent_of_weights_and_biases_runs_train_as_it_is(project):
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    follow((project.folder / "docs/sweeps.md").read_text(encoding="utf-8"), project.folder)
    sweep = yaml.safe_load((project.folder / "sweeps/wandb.yaml").read_text(encoding="utf-8"))
    drawn = {"optimizer.lr": {"value": 0.003}, "model": {"value": "mlp"}}
    assert drawn.keys() == sweep["parameters"].keys()
    parts = create_sweep_command_args({"args": drawn})
    _, python, program, *words = sweep["command"]
    assert (python, program) == ("python", "${program}")
    arguments = [each for word in words for each in (parts[word[2:-1]] if word.startswith("${") else [word])]
    agent = {"WANDB_RUN_ID": "drawn", "WANDB_SWEEP_ID": "swept"}  # what an agent sets for each of its runs
    succeeded(project.run(sweep["program"], *SHORT, *arguments, **OFFLINE, **agent))
    ended = record(project)
    assert ended["loggers"] == {"wandb": "drawn"}
    assert "optimizer.lr=0.003" in ended["overrides"]
    assert sweep["metric"]["name"] in ended["metrics"]
