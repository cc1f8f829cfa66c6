"""What a run shows while it trains: the bar of a terminal, a line for every epoch, and what the network is made of."""

import io
import re

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from rich.console import Console
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset
from training_runs.callbacks import progress_bar
from training_runs.callbacks.epoch_lines import EpochLines
from training_runs.callbacks.model_summary import ModelSummary
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
    """A terminal of 80 columns, as the bar sees it, and everything that is drawn there."""
    drawn = io.StringIO()
    monkeypatch.setattr(progress_bar, "Console", lambda: Console(file=drawn, force_terminal=True, width=80))
    return drawn


def lines_of(drawn) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.getvalue().replace("\r", "\n")).splitlines()


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


def test_bar_fits_eighty_columns_and_counts_epochs_from_one(fit, terminal):
    long = {"a_metric_with_a_long_name": 0.5, "another_metric_with_a_long_name": 0.25, "a_third": 3.0}

    class Talkative(Doubling):
        def validation_step(self, batch, batch_idx):
            self.log_dict(long, prog_bar=True)

    fit(ProgressBar(1000), module=Talkative(), enable_progress_bar=True, max_epochs=2)
    shown = lines_of(terminal)
    assert max(map(len, shown)) <= 80
    assert {line.split()[1] for line in shown if line.startswith("epoch")} == {"1/2", "2/2"}
    assert any("a_third 3" in line for line in shown)


def test_training_loss_is_on_the_bar_from_the_first_batch(fit, terminal):
    fit(ProgressBar(1000), enable_progress_bar=True)
    shown = lines_of(terminal)
    first = next(index for index, line in enumerate(shown) if f"1/{BATCHES} " in line and line.startswith("epoch"))
    assert shown[first + 1].startswith("train loss 1")


def test_training_loss_is_that_of_the_batch_where_gradients_are_accumulated(fit, terminal):
    fit(ProgressBar(1000), enable_progress_bar=True, accumulate_grad_batches=2)
    assert any(line.startswith("train loss 1") for line in lines_of(terminal))


def test_bar_has_no_colour_that_a_black_or_a_white_background_swallows(fit, terminal):
    fit(ProgressBar(1000), enable_progress_bar=True)
    styles = {part for code in re.findall(r"\x1b\[([\d;]*)m", terminal.getvalue()) for part in code.split(";")}
    assert styles <= {"", "0", "39", "35", "90"}  # the terminal's own, magenta, grey of what is still to come


def test_bar_draws_nothing_where_the_output_is_no_terminal(fit, capsys):
    fit(ProgressBar(1000), enable_progress_bar=True)
    assert capsys.readouterr().out == ""


def test_epoch_is_no_line_where_a_bar_is_drawn(fit, terminal, capsys):
    fit(ProgressBar(1000), EpochLines("val/score", "max"), enable_progress_bar=True)
    assert epoch_lines(capsys.readouterr().out) == []


class ReadsBack(TorchDispatchMode):
    """Counts how often a number is fetched from the device."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_bar_and_lines_fetch_nothing_between_the_steps_that_are_logged(fit, terminal):
    watch = ReadsBack()

    class Watch(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if (trainer.current_epoch, batch_idx) == (1, 1):
                watch.__enter__()

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if (trainer.current_epoch, batch_idx) == (1, 4):
                watch.__exit__(None, None, None)

    bar, lines = ProgressBar(1000), EpochLines("val/score", "max")
    module = Doubling([0.5, 0.6])
    fit(bar, lines, Watch(), module=module, enable_progress_bar=True, log_every_n_steps=100, max_epochs=2)
    assert watch.count == 0
    assert any("val/score 0.5" in line for line in lines_of(terminal))


def test_summary_shows_the_shapes_of_outputs_and_no_flops(fit, capsys):
    fit(ModelSummary(2), enable_model_summary=True)
    table = capsys.readouterr().out
    assert re.search(r"^layer\.0 +Linear +\[2, 3\] +9$", table, re.MULTILINE)
    assert "13 parameters, 13 trainable" in table
    assert "FLOP" not in table


def test_summary_is_shown_when_the_first_batch_fails_too(fit, capsys):
    class Failing(Doubling):
        def validation_step(self, batch, batch_idx):
            raise RuntimeError("no batch")

    with pytest.raises(RuntimeError):
        fit(ModelSummary(2), module=Failing(), enable_model_summary=True)
    assert re.search(r"^layer +Sequential +13$", capsys.readouterr().out, re.MULTILINE)


def test_hooks_of_the_summary_are_gone_after_the_first_batch(fit):
    module = Doubling()
    fit(ModelSummary(2), module=module, enable_model_summary=True)
    assert not any(each._forward_hooks for each in module.modules())


def test_summary_is_shown_once_for_a_sweep_and_logged_by_every_job(sweep, capsys):
    jobs = sweep("seed=0,1", LINES)
    table = "net.head"
    assert capsys.readouterr().out.count(table) == 1
    assert [(job / "train.log").read_text(encoding="utf-8").count(table) for job in jobs] == [1, 1]
