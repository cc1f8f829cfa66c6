"""What a run shows while it trains: the bar of a terminal, a line for every epoch, what the network is made of."""

import re

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from rich import reconfigure
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset
from training_runs.callbacks.epoch_lines import EpochLines
from training_runs.callbacks.progress_bar import ProgressBar

BATCHES = 6
LINES = "callbacks=[checkpoint,epoch_lines,lr_monitor,model_summary,progress_bar]"


class Doubling(LightningModule):
    """Learns nothing: its validation gives `scores`, an epoch each, and training the losses 1, 2, 3..."""

    def __init__(self, scores=(0.5,), interval=1) -> None:
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        self.scores, self.interval, self.count = list(scores), interval, 0

    def training_step(self, batch, batch_idx):
        self.count += 1
        return self.layer(batch[0]).sum() * 0 + self.count

    def on_train_epoch_end(self):
        self.log("train/loss", float(self.count))

    def validation_step(self, batch, batch_idx):
        if not self.trainer.sanity_checking:
            self.log("val/score", self.scores[self.trainer.current_epoch], prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(tmp_path):
    def run(*callbacks, module=None, checkpoint=None, **options) -> Trainer:
        settings = {"max_epochs": 1, "log_every_n_steps": 3, "logger": False, "enable_checkpointing": False}
        settings |= {"enable_model_summary": False, "enable_progress_bar": False} | options
        trainer = Trainer(accelerator="cpu", default_root_dir=tmp_path, callbacks=list(callbacks), **settings)
        batches = DataLoader(TensorDataset(torch.ones(2 * BATCHES, 2)), batch_size=2)
        trainer.fit(module or Doubling(), batches, batches, ckpt_path=checkpoint)
        return trainer

    return run


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns, as rich sees it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    reconfigure()
    yield
    monkeypatch.undo()
    reconfigure()


def lines_of(drawn: str) -> list[str]:
    """Return every line that was drawn, also where another has taken its place."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", re.sub(r"\r|\x1b\[2K", "\n", drawn)).splitlines()


def epoch_lines(text: str) -> list[str]:
    return re.findall(r"epoch \d+/\d+  .*", text)


def test_every_epoch_is_a_line_of_the_log_and_of_an_output_that_is_no_terminal(train, capsys):
    run = train("trainer.max_epochs=2", LINES)
    lines = epoch_lines(capsys.readouterr().out)
    assert epoch_lines((run / "train.log").read_text(encoding="utf-8")) == lines
    values = r"train/loss \S+  train/accuracy \S+  val/loss \S+  val/accuracy (\S+)  \S+ batches/s  \S+ s  "
    scores = []
    for epoch, line in enumerate(lines, 1):
        found = re.fullmatch(rf"epoch {epoch}/2  {values}best val/accuracy (\S+) in epoch (\d)", line)
        scores.append(float(found[1]))
        assert (float(found[2]), int(found[3]) - 1) == (max(scores), scores.index(max(scores)))
    assert len(lines) == 2


def test_best_so_far_is_of_the_mode_and_names_its_epoch(fit, capsys):
    fit(EpochLines("val/score", "min"), module=Doubling([0.5, 0.3, 0.4]), max_epochs=3)
    ends = [line.partition("best ")[2] for line in epoch_lines(capsys.readouterr().out)]
    assert ends == ["val/score 0.5 in epoch 1", "val/score 0.3 in epoch 2", "val/score 0.3 in epoch 2"]


def test_epoch_without_validation_shows_none_of_another(fit, capsys):
    fit(EpochLines("val/score", "max"), module=Doubling([0.5, 0.3]), max_epochs=2, check_val_every_n_epoch=2)
    first, second = epoch_lines(capsys.readouterr().out)
    assert "val/score" not in first
    assert "val/score 0.3  " in second


def test_metric_of_training_can_be_the_best(fit, capsys):
    fit(EpochLines("train/loss", "min"), module=Doubling([0, 0]), max_epochs=2)
    assert epoch_lines(capsys.readouterr().out)[1].endswith("best train/loss 6 in epoch 1")


def test_run_that_goes_on_remembers_the_best_so_far(fit, tmp_path, capsys):
    file = tmp_path / "last.ckpt"
    fit(EpochLines("val/score", "max"), module=Doubling([0.9])).save_checkpoint(file)
    fit(EpochLines("val/score", "max"), module=Doubling([0.9, 0.1]), max_epochs=2, checkpoint=file)
    assert epoch_lines(capsys.readouterr().out)[-1].endswith("best val/score 0.9 in epoch 1")


def test_bar_fits_eighty_columns_and_counts_epochs_from_one(fit, terminal, capsys):
    fit(ProgressBar(), module=Doubling([0.5, 0.6]), enable_progress_bar=True, max_epochs=2)
    shown = lines_of(capsys.readouterr().out)
    assert max(map(len, shown)) <= 80
    assert {line.split()[1] for line in shown if line.startswith("epoch")} >= {"1/2", "2/2"}
    assert any("val/score: 0.500" in line for line in shown)
    assert not any("v_num" in line for line in shown)


def test_bar_draws_nothing_where_the_output_is_no_terminal(fit, capsys):
    fit(ProgressBar(), enable_progress_bar=True)
    assert capsys.readouterr().out == ""


def test_epoch_is_no_line_where_a_bar_is_drawn(fit, terminal, capsys):
    fit(ProgressBar(), EpochLines("val/score", "max"), enable_progress_bar=True)
    assert not any("batches/s" in line for line in epoch_lines(capsys.readouterr().out))


class ReadsBack(TorchDispatchMode):
    """Counts how often a number is fetched from the device."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_bar_and_lines_fetch_nothing_between_the_steps_that_are_logged(fit, terminal, capsys):
    watch = ReadsBack()

    class Watch(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if (trainer.current_epoch, batch_idx) == (1, 1):
                watch.__enter__()

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if (trainer.current_epoch, batch_idx) == (1, 4):
                watch.__exit__(None, None, None)

    bar, lines = ProgressBar(), EpochLines("val/score", "max")
    module = Doubling([0.5, 0.6])
    fit(bar, lines, Watch(), module=module, enable_progress_bar=True, log_every_n_steps=100, max_epochs=2)
    assert watch.count == 0
    assert any("val/score: 0.500" in line for line in lines_of(capsys.readouterr().out))


def test_summary_of_the_network_is_in_the_log_of_a_run_and_of_the_first_job_of_a_sweep(train, sweep):
    logs = [folder / "train.log" for folder in (*sweep("seed=0,1", LINES), train(LINES))]
    assert [log.read_text(encoding="utf-8").count("net.head") for log in logs] == [1, 0, 1]
