"""A run that stops goes on as if it had never stopped: every file that it leaves is that of an uninterrupted one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from conftest import run_script, run_train
from pytorch_lightning import Callback
from torch import Tensor

from {{ cookiecutter.package }}.data import SampleDataModule
from {{ cookiecutter.package }}.training.runs import read_record

# Two epochs of seven steps, the last one smaller than the others; dropout is in the network.
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


STOP = f"+callbacks.stop._target_={__name__}.Stop"


def stop_at(batches: int, signum: int | None = None) -> None:
    Stop.at, Stop.signal = batches, signum


class Shifted(SampleDataModule):
    """Augmented on the device, a batch at a time, from the global generator."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        images, labels = super().on_after_batch_transfer(batch, dataloader_idx)
        if self.trainer.training:
            images = images + torch.rand(len(images), 1, 1, 1)
        return images, labels


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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """`whole(*overrides)`: what an uninterrupted run ends with; each is made once."""
    made: dict[tuple[str, ...], dict[str, Any]] = {}

    def run(*overrides: str) -> dict[str, Any]:
        if overrides not in made:
            stop_at(0)
            made[overrides] = result(run_train(tmp_path_factory.mktemp("whole"), *SMALL, *overrides, STOP))
        return made[overrides]

    return run


@pytest.fixture
def interrupted(tmp_path):
    """`interrupted(batches, *overrides)`: the directory of a run that stops after so many batches."""

    def run(batches: int, *overrides: str, signum: int | None = None) -> Path:
        stop_at(batches, signum)
        with pytest.raises(SystemExit):
            run_train(tmp_path, *SMALL, *overrides, STOP)
        [record] = tmp_path.glob("outputs/*/*/*/run.json")
        assert read_record(record.parent)["state"] == ("failed" if signum is None else "interrupted")
        return record.parent

    return run


def resume(run: Path, *overrides: str) -> dict[str, Any]:
    run_script("train.py", run.parents[3], f"resume={run}", *overrides)
    assert read_record(run)["state"] == "finished"
    return result(run)


EVERY_THIRD = "callbacks.last_checkpoint.every_n_train_steps=3"
VARIANTS = {
    "plain": [],
    "2 workers": ["data.num_workers=2"],
    "accumulation": ["trainer.accumulate_grad_batches=2"],
    "plateau": ["scheduler=plateau", "scheduler.scheduler.patience=0", "optimizer.lr=0.1"],
    "cosine": ["scheduler=cosine"],
    "one_cycle": ["scheduler=one_cycle"],
    "sgd": ["optimizer=sgd"],
    "augmentation": [f"data._target_={__name__}.Shifted"],
    "validation amid the epoch": ["+trainer.val_check_interval=2", "scheduler=plateau"],
    "steps": ["+trainer.max_steps=17", "trainer.max_epochs=null"],
}


@pytest.mark.parametrize("batches", [2, 7, 11, 14])
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed(variant, batches, interrupted, whole):
    overrides = [*VARIANTS[variant], EVERY_THIRD]
    run = interrupted(batches, *overrides)
    assert differences(resume(run), whole(*overrides)) == []


@pytest.mark.parametrize("batches", [2, 7, 11, 14])
@pytest.mark.parametrize("variant", VARIANTS)
def test_signal(variant, batches, interrupted, whole):
    overrides = [*VARIANTS[variant], EVERY_THIRD]
    run = interrupted(batches, *overrides, signum=signal.SIGTERM)
    assert differences(resume(run), whole(*overrides)) == []
