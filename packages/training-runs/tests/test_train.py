"""python train.py as the libraries frame it: how a run ends, what it is told, and what answers without torch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from in_project import TEMPLATE
from pytorch_lightning import Callback
from training_runs.records.runs import read_record

OPTIMIZERS = sorted(path.stem for path in (TEMPLATE / "conf/optimizer").glob("*.yaml"))


def load(run: Path, name: str = "last") -> dict:
    return torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)


def same_weights(first: Path, second: Path) -> bool:
    ours, theirs = load(first)["state_dict"], load(second)["state_dict"]
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


class Interrupt(Callback):
    """Ctrl-C in the first training step."""

    def on_train_batch_end(self, *arguments):
        raise KeyboardInterrupt


class Fail(Callback):
    def on_train_batch_end(self, *arguments):
        raise ValueError("loss is not finite")


def add(callback: type[Callback]) -> str:
    return f"+callbacks.added._target_={__name__}.{callback.__name__}"


@pytest.fixture
def ended(train, tmp_path):
    """`ended(*overrides)`: the directory and exit code of a run that does not end well."""

    def run(*overrides: str) -> tuple[Path, int | str | None]:
        with pytest.raises(SystemExit) as exited:
            train(*overrides)
        [record] = tmp_path.glob("outputs/**/run.json")
        return record.parent, exited.value.code

    return run


def test_recorded_metrics_are_those_of_the_best_checkpoint_to_the_last_digit(train):
    run = train("trainer.max_epochs=3", "optimizer.lr=0.01")
    record, best = read_record(run), load(run, "best")
    assert record["best_checkpoint"] == "checkpoints/best.ckpt"
    assert best["metrics"].keys() == {"val/loss", "val/accuracy"}
    assert best["metrics"].items() <= record["metrics"].items()


def test_checkpoint_holds_all_that_training_needs_to_go_on(tiny):
    checkpoint = load(tiny)
    keys = {"state_dict", "optimizer_states", "lr_schedulers", "loops", "callbacks", "epoch", "global_step", "metrics"}
    assert checkpoint.keys() >= keys
    assert checkpoint["global_step"] == 2


def test_no_seed_gives_other_weights_each_time(train):
    assert not same_weights(train("seed=null"), train("seed=null"))


def test_logging_and_validation_change_no_weights(tiny, train):
    # What only watches the training must not draw from its generators.
    often = ["trainer.log_every_n_steps=1", "trainer.limit_val_batches=3", "+trainer.val_check_interval=1"]
    assert same_weights(tiny, train("seed=0", *often))


class Switches(Callback):
    """Keeps what torch was told during training."""

    seen = None

    def on_train_start(self, *arguments):
        Switches.seen = (
            torch.are_deterministic_algorithms_enabled(),
            torch.backends.cudnn.deterministic,
            os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        )


def test_deterministic_run_has_all_switches_set(train, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    train("trainer=deterministic", "trainer.accelerator=cpu", add(Switches))
    assert Switches.seen == (True, True, ":4096:8")


def test_job_after_a_deterministic_one_is_not_deterministic(sweep):
    sweep("trainer=deterministic,cpu", "trainer.accelerator=cpu", add(Switches))
    assert Switches.seen[:2] == (False, False)


def test_run_that_raises_is_recorded_as_failed(ended):
    run, code = ended(add(Fail))
    assert code == 1
    record = read_record(run)
    assert (record["state"], record["error"]) == ("failed", "ValueError: loss is not finite")


def test_run_that_is_stopped_is_recorded_as_interrupted(ended):
    run, code = ended(add(Interrupt))
    assert code not in (0, None)
    assert read_record(run)["state"] == "interrupted"


def test_run_that_is_stopped_has_a_report(ended):
    run, _ = ended(add(Interrupt))
    assert '<span class="interrupted">' in (run / "report.html").read_text(encoding="utf-8")


def test_config_that_does_not_fit_is_refused_before_anything_is_built(train, tmp_path, capsys):
    with pytest.raises(SystemExit):
        train("model.net._target_=torch.nn.Linaer", "+optimizer.moment=0.9")
    told = capsys.readouterr().err
    assert "model.net._target_=torch.nn.Linaer cannot be imported: torch.nn has no 'Linaer'" in told
    assert "optimizer.moment is not an argument of torch.optim.Adam" in told
    assert "Traceback" not in told
    assert not list(tmp_path.rglob("run.json"))


def test_monitored_metric_is_a_value_of_the_config(train):
    run = train("trainer.max_epochs=2", "monitor=val/loss", "mode=min", "optimizer.lr=0.3", "optimizer=sgd")
    [state] = [state for name, state in load(run)["callbacks"].items() if name.startswith("ModelCheckpoint")]
    assert state["monitor"] == "val/loss"
    assert state["best_model_score"].item() == read_record(run)["metrics"]["val/loss"]


def test_test_is_left_out_on_request(train):
    assert not any(name.startswith("test/") for name in read_record(train("test=false"))["metrics"])


def test_run_needs_no_logger_and_no_callback(train):
    assert read_record(train("logger=[]", "callbacks=[]"))["state"] == "finished"


@pytest.mark.parametrize("overrides", [["callbacks.lr_monitor=null"], ["callbacks=[]", "logger.csv=null"]])
def test_part_that_is_set_to_null_is_left_out(train, overrides):
    assert read_record(train(*overrides))["state"] == "finished"


def test_composed_config_is_shown_on_request(train, capsys):
    train("print_config=true", "optimizer.lr=0.00123")
    assert re.search(r"lr: 0\.00123", capsys.readouterr().out)


@pytest.fixture
def quick(root, tmp_path):
    """`quick(*arguments, script="train.py")`: the finished process, in which importing torch would be an error."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')\n", encoding="utf-8")

    def run(*arguments: str, script: str = "train.py", **environment: str) -> subprocess.CompletedProcess[str]:
        paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}
        command = [sys.executable, root / script, *arguments]
        settings = {"cwd": tmp_path, "env": os.environ | environment, "capture_output": True, "encoding": "utf-8"}
        finished = subprocess.run(command, **settings)
        assert "torch was imported" not in finished.stderr
        return finished

    return run


@pytest.mark.parametrize("script", ["train.py", "eval.py"])
def test_help_answers_without_torch(quick, script):
    finished = quick("--help", script=script)
    assert finished.returncode == 0
    assert script.removesuffix(".py") in finished.stdout


def test_help_of_evaluation_lists_what_it_takes_and_nothing_of_training(quick):
    said = quick("--help", script="eval.py").stdout
    assert "predict=<folder>" in said
    assert "ckpt: best" in said
    assert "optimizer" not in said


def test_composed_config_is_shown_without_torch(quick):
    finished = quick("--cfg", "job", "optimizer=sgd")
    assert finished.returncode == 0
    assert "_target_: torch.optim.SGD" in finished.stdout


def test_shell_completion_answers_without_torch(quick):
    finished = quick("-sc", "query=bash", COMP_LINE="train.py optimizer=")
    assert finished.stdout.split() == [f"optimizer={option}" for option in OPTIMIZERS]


def test_unknown_option_is_refused_without_torch(quick):
    finished = quick("optimizer=adamm")
    assert finished.returncode == 1
    assert "adamm" in finished.stderr
    assert all(option in finished.stderr for option in OPTIMIZERS)
    assert "Traceback" not in finished.stderr


def test_unknown_key_is_refused_with_the_nearest_one_without_torch(quick):
    finished = quick("optimizer.lrr=0.1")
    assert finished.returncode == 1
    assert "optimizer.lrr is no key of train.yaml; did you mean optimizer.lr" in finished.stderr
