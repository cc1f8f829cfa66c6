"""A run that stops goes on as if it had never stopped: every file that it leaves is that of an uninterrupted one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from pytorch_lightning import Callback
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor
from training_runs.launching import ranks
from training_runs.launching.parent import TIME_LIMIT
from training_runs.records import resume
from training_runs.records.runs import read_record

# Three epochs of seven steps, with a checkpoint after every third step; dropout is in the network.
SMALL = (
    "data=mnist_sample",
    "data.batch_size=64",
    "trainer=deterministic",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=3",
    "trainer.log_every_n_steps=1",
    "++trainer.limit_train_batches=7",
    "++trainer.limit_val_batches=2",
    "++trainer.limit_test_batches=1",
    "model=mlp",
    "callbacks=[checkpoint,early_stopping,lr_monitor]",
    "callbacks.last_checkpoint.every_n_train_steps=3",
    "logger=csv",
)


class Stop(Callback):
    """Sends a signal to this process, or raises where there is none, after a number of batches; once."""

    at: ClassVar[int] = 0
    signal: ClassVar[int | None] = None

    def on_train_batch_end(self, trainer, *arguments):
        if trainer.fit_loop.total_batch_idx + 1 == Stop.at:
            Stop.at = 0
            if Stop.signal is None:
                raise RuntimeError("gone")
            os.kill(os.getpid(), Stop.signal)


class StopLater(Callback):
    """Raises in the hook of the end of something; once."""

    hook: ClassVar[str] = ""

    def end(self, hook: str) -> None:
        if StopLater.hook == hook:
            StopLater.hook = ""
            raise RuntimeError("gone")

    def on_fit_end(self, *arguments):
        self.end("on_fit_end")

    def on_test_end(self, *arguments):
        self.end("on_test_end")


STOP = f"+callbacks.stop._target_={__name__}.Stop"
ALLOWED = f"allow=[{__name__},augmented_data]"  # classes that only the first command has named


def stop_at(batches: int, signum: int | None = None) -> None:
    Stop.at, Stop.signal = batches, signum


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of all that a checkpoint holds; bytes of a tensor, and no directories."""
    if isinstance(value, (dict, list, tuple)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, f"{path}/{key if '/' not in str(key) else Path(str(key)).name}")
    elif isinstance(value, Tensor):
        yield path, (value.dtype, value.shape, value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    else:
        yield path, Path(value).name if isinstance(value, str) and "/" in value else value


def result(run: Path) -> dict[str, Any]:
    """All that a run ends with."""
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    metrics = (run / "csv" / "metrics.csv").read_text(encoding="utf-8")
    return {"checkpoint": dict(leaves(checkpoint)), "csv": metrics, "metrics": read_record(run)["metrics"]}


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    ours, theirs = first["checkpoint"], second["checkpoint"]
    found = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    return found + [part for part in ("csv", "metrics") if first[part] != second[part]]


def read(folder: Path) -> EventAccumulator:
    board = EventAccumulator(str(folder))
    board.Reload()
    return board


def the_run(folder: Path) -> Path:
    [record] = folder.glob("outputs/*/*/*/run.json")
    return record.parent


@pytest.fixture(scope="module")
def whole(script_in, tmp_path_factory):
    """`whole(*overrides)`: what an uninterrupted run ends with; each is made once."""
    made: dict[tuple[str, ...], dict[str, Any]] = {}

    def run(*overrides: str) -> dict[str, Any]:
        if overrides not in made:
            folder = tmp_path_factory.mktemp("whole")
            stop_at(0)
            script_in(folder, "train.py", *SMALL, *overrides, STOP)
            made[overrides] = result(the_run(folder))
        return made[overrides]

    return run


@pytest.fixture
def stopped(script_in, tmp_path):
    """`stopped(batches, *overrides)`: the directory of a run that stops after so many batches."""

    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in a shell's background ignore it

    def run(batches: int, *overrides: str, signum: int | None = None) -> Path:
        stop_at(batches, signum)
        with pytest.raises(SystemExit) as exited:
            script_in(tmp_path, "train.py", *SMALL, *overrides, STOP)
        assert exited.value.code == (1 if signum is None else 128 + signum)
        assert read_record(the_run(tmp_path))["state"] == ("failed" if signum is None else "interrupted")
        return the_run(tmp_path)

    yield run
    signal.signal(signal.SIGINT, former)


@pytest.fixture
def resumed(script_in, tmp_path):
    """`resumed(run, *overrides)`: what the run ends with after it has been resumed."""

    def run(run: Path, *overrides: str) -> dict[str, Any]:
        script_in(tmp_path, "train.py", f"resume={run}", ALLOWED, *overrides)
        assert read_record(run)["state"] == "finished"
        return result(run)

    return run


VARIANTS = {
    "sgd": ["optimizer=sgd"],
    "persistent workers, plateau": ["data.num_workers=2", "scheduler=plateau", "scheduler.scheduler.patience=0"],
    "own workers, augmented samples": ["data._target_=augmented_data.OwnLoader"],
    "augmented batches, cosine": ["data._target_=augmented_data.Shifted", "scheduler=cosine"],
    "accumulation, one_cycle": ["trainer.accumulate_grad_batches=2", "scheduler=one_cycle"],
    "validation amid the epoch": ["+trainer.val_check_interval=2", "scheduler=plateau"],
    "moving average": ["callbacks=[checkpoint,early_stopping,lr_monitor,ema]", "callbacks.ema.decay=0.5"],
    "number of steps": ["+trainer.max_steps=17", "trainer.max_epochs=null"],
}


@pytest.mark.parametrize(
    "variant",
    [
        name
        if name in ("sgd", "own workers, augmented samples", "moving average")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in VARIANTS
    ],
)
def test_run_that_was_killed_amid_an_epoch_ends_as_if_it_had_not_been(variant, stopped, resumed, whole, recwarn):
    overrides = VARIANTS[variant]
    assert differences(resumed(stopped(11, *overrides)), whole(*overrides)) == []
    if "data._target_" not in str(overrides):  # a DataModule of the project's own, with its sampler
        assert "not resumable" not in str([str(warning.message) for warning in recwarn])


def test_finished_run_with_a_moving_average_goes_on_as_if_it_had_not_ended(script_in, tmp_path, resumed, whole):
    overrides = VARIANTS["moving average"]
    stop_at(0)
    script_in(tmp_path, "train.py", *SMALL, *overrides, STOP, "trainer.max_epochs=2")
    assert differences(resumed(the_run(tmp_path), "trainer.max_epochs=3"), whole(*overrides)) == []


def test_default_callbacks_go_on_amid_an_epoch(stopped, resumed, whole):
    everything = "callbacks=[checkpoint,early_stopping,epoch_lines,figures,lr_monitor,model_summary,step_monitor]"
    # metrics.csv has samples per second, too
    assert set(differences(resumed(stopped(11, everything)), whole(everything))) <= {"csv"}


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if "," in name or "number" in name])
def test_run_that_was_killed_after_an_epoch_ends_as_if_it_had_not_been(variant, stopped, resumed, whole):
    overrides = VARIANTS[variant]
    assert differences(resumed(stopped(8, *overrides)), whole(*overrides)) == []


def test_run_that_was_killed_before_its_first_step_has_a_checkpoint_resumes_from_its_start(stopped, resumed, whole):
    overrides = VARIANTS["sgd"]
    assert differences(resumed(stopped(2, *overrides)), whole(*overrides)) == []


@pytest.mark.parametrize(("batches", "signum"), [(7, signal.SIGTERM), (9, signal.SIGINT), (21, signal.SIGTERM)])
def test_run_that_was_asked_to_stop_ends_as_if_it_had_not_been(batches, signum, stopped, resumed, whole):
    overrides = VARIANTS["accumulation, one_cycle"]
    assert differences(resumed(stopped(batches, *overrides, signum=signum)), whole(*overrides)) == []


@pytest.mark.skipif(not TIME_LIMIT, reason="no SLURM on Windows")
def test_run_that_slurm_warns_of_its_time_limit_is_started_again_and_ends_as_if_it_had_not_been(
    stopped, resumed, whole, monkeypatch
):
    overrides, asked = VARIANTS["accumulation, one_cycle"], []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(ranks, "requeue", lambda first: asked.append(first))
    run = stopped(9, *overrides, signum=TIME_LIMIT[0])
    assert asked == [True]
    assert differences(resumed(run), whole(*overrides)) == []


def test_what_lightning_saves_for_slurm_is_gone_on_from_by_its_number_and_where_there_is_nothing_else(tmp_path):
    for number, clock in ((2, 30), (10, 20), (9, 10)):
        (tmp_path / f"hpc_ckpt_{number}.ckpt").touch()
        os.utime(tmp_path / f"hpc_ckpt_{number}.ckpt", (clock, clock))
    assert resume.checkpoint(tmp_path).name == "hpc_ckpt_10.ckpt"
    last = tmp_path / "checkpoints" / "last.ckpt"
    last.parent.mkdir()
    last.touch()
    os.utime(last, (1, 1))
    assert resume.checkpoint(tmp_path) == last


@pytest.mark.parametrize("hook", ["on_fit_end", "on_test_end"])
def test_run_that_was_killed_after_its_last_epoch_has_each_row_and_point_once(
    hook, script_in, tmp_path, whole, resumed
):
    StopLater.hook = hook
    later = f"+callbacks.later._target_={__name__}.StopLater"
    with pytest.raises(SystemExit):
        script_in(tmp_path, "train.py", *SMALL, "logger=[csv,tensorboard]", STOP, later)
    run = the_run(tmp_path)
    assert differences(resumed(run), whole()) == []
    for part, tag in (("best", "accuracy"), ("test", "accuracy"), ("val", "accuracy"), ("train", "loss")):
        steps = [event.step for event in read(run / "tensorboard" / part).Scalars(tag)]
        assert steps == sorted(set(steps))
