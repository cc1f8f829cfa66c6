import csv
import itertools

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader
from training_runs.callbacks import step_monitor
from training_runs.callbacks.step_monitor import StepMonitor


class Slope(LightningModule):
    """Gradients (3, 4) in every step."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def training_step(self, batch, batch_idx):
        return (self.weight * torch.tensor([3.0, 4.0])).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def logged(folder, monitor: StepMonitor, **options) -> list[dict[str, float]]:
    trainer = Trainer(
        log_every_n_steps=2,
        gradient_clip_val=0.1,
        accelerator="cpu",
        logger=CSVLogger(folder, name="", version=""),
        callbacks=[monitor],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(Slope(), DataLoader(torch.zeros(8, 1)))
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize(("norm_type", "norm"), [(2, 5.0), ("inf", 4.0)])
def test_norm_is_that_of_all_gradients_before_clipping(tmp_path, norm_type, norm):
    rows = logged(tmp_path, StepMonitor(norm_type), max_steps=4)
    assert [(row["step"], row["train/gradient_norm"]) for row in rows] == [(1, norm), (3, norm)]


def test_rate_and_waiting_are_of_the_time_since_the_last_logged_step(tmp_path, monkeypatch):
    seconds = itertools.count()  # one goes by at every look at the clock
    monkeypatch.setattr(step_monitor.time, "perf_counter", lambda: next(seconds))
    for row in logged(tmp_path, StepMonitor(2), max_steps=4):
        # start, (batch start, batch end) twice: four seconds for two samples, of which two were spent waiting
        assert (row["train/samples_per_second"], row["train/data_wait"]) == (0.5, 0.5)


def test_step_of_several_batches_is_logged_once(tmp_path):
    rows = logged(tmp_path, StepMonitor(2), max_steps=2, accumulate_grad_batches=4)
    assert [(row["step"], row["train/gradient_norm"]) for row in rows] == [(1, 5.0)]
