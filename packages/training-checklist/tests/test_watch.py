"""A whole training is watched, and stays what it is."""

import csv
import itertools

import pytest
import torch
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from training_checklist import check
from training_checklist.experiments.watch.look import Look
from training_checklist.experiments.watch.pace import SETTLING, Pace
from training_checklist.experiments.watch.timeline import MOST, Timeline
from training_checklist.experiments.watch.watch import Watch

EPOCHS = 6  # of ten batches


@pytest.fixture
def watched(tmp_path, data, monkeypatch):
    """`watched(module, data, **trainer)`: the verdict, of a training whose every second step is looked at."""
    monkeypatch.setattr(Pace, "is_due", property(lambda pace: pace.steps >= SETTLING and pace.steps % 2))
    monkeypatch.setattr("training_checklist.experiments.watch.watch.draw", lambda *_: "")

    def run(module, datamodule=None, **trainer):
        trainer = {"accelerator": "cpu", "max_epochs": EPOCHS} | trainer
        results = check(lambda: module, datamodule or data(), items=["watch"], trainer=trainer, folder=tmp_path)
        return results["watch"]

    return run


def read(folder):
    with (folder / "watch" / "debug" / "watch.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_healthy_training_passes_and_ends_with_the_weights_that_it_has_alone(watched, net, data):
    from pytorch_lightning import Trainer, seed_everything

    module = net()
    start = {name: value.clone() for name, value in module.state_dict().items()}
    verdict = watched(module)
    assert (verdict.status, verdict.error) == ("passed", None)
    assert "watch/updates-stopped" in verdict.judged
    alone = net()
    alone.load_state_dict(start)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    seed_everything(0, verbose=False)
    Trainer(accelerator="cpu", max_epochs=EPOCHS, enable_model_summary=False, **quiet).fit(alone, datamodule=data())
    assert all(torch.equal(value, alone.state_dict()[name]) for name, value in module.state_dict().items())


def test_series_and_figure_lie_beside_the_report(net, data, tmp_path):
    check(net(), data(), items=["watch"], trainer={"accelerator": "cpu", "max_epochs": EPOCHS}, folder=tmp_path)
    series = {row["series"] for row in read(tmp_path)}
    assert {"update_ratio", "gradient_norm", "gradient_at_output", "output_scale", "share_without_slope"} <= series
    assert {"learning_rate", "seconds_a_step"} <= series
    folder = tmp_path / "watch" / "debug"
    assert (folder / "watch.png").stat().st_size
    assert (folder / "watch.svg").read_text().startswith("<?xml")


def test_length_callbacks_and_validation_are_the_runs_own(watched, net):
    seen = {}

    class Kept(Callback):
        def on_validation_end(self, trainer, pl_module):
            seen["validations"] = seen.get("validations", 0) + (not trainer.sanity_checking)

        def on_train_end(self, trainer, pl_module):
            seen["epochs"] = trainer.current_epoch
            seen["stopping"] = any(isinstance(callback, EarlyStopping) for callback in trainer.callbacks)

    watched(net(), callbacks=[Kept(), EarlyStopping("val/loss", patience=99)])
    assert seen == {"validations": EPOCHS, "epochs": EPOCHS, "stopping": True}


def test_early_stopping_still_stops(watched, net, tmp_path):
    watched(net(), callbacks=[EarlyStopping("val/loss", stopping_threshold=99.0)])
    assert max(int(row["step"]) for row in read(tmp_path)) <= 10


def test_hooks_are_there_in_watched_steps_alone(net, data):
    counts = []

    class Count(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            watching = any(callback.look is not None for callback in trainer.callbacks if isinstance(callback, Watch))
            counts.append((watching, len(pl_module.head._forward_hooks), "training_step" in vars(pl_module)))

    trainer = {"accelerator": "cpu", "max_epochs": 2, "callbacks": [Count()]}
    check(net(), data(), items=["watch"], trainer=trainer)
    assert all((watching, watching) == (hooks > 0, wrapped) for watching, hooks, wrapped in counts)


def test_weights_that_are_put_back_from_some_step_on_are_told_with_the_step(watched, net):
    class PutBack(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step == 20:
                self.state = {name: value.clone() for name, value in pl_module.state_dict().items()}
            elif trainer.global_step > 20:
                pl_module.load_state_dict(self.state)

    verdict = watched(net(), callbacks=[PutBack()])
    [finding] = [finding for finding in verdict.findings if finding.rule == "watch/updates-stopped"]
    assert "from step 22 to step 60" in finding.what
    assert "they are what they were" in finding.what


def test_steps_too_small_for_the_type_of_the_weights_are_told(watched, net):
    class Coarse(net):
        def on_fit_start(self):
            self.to(torch.bfloat16)

        def loss(self, batch):
            return super().loss([batch[0].bfloat16(), batch[1]])

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            fall = lambda step: 1.0 if step < 20 else 1e-5  # noqa: E731
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, fall)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    verdict = watched(Coarse())
    assert any("steps move them by exactly 0" in finding.what for finding in verdict.findings)


def test_rate_that_ends_at_0_is_no_standstill(watched, net):
    class Cosine(net):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step < 20))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    assert watched(Cosine()).status == "passed"


def test_units_that_die_during_training_are_told_with_their_place(watched, net):
    class Dying(net):
        def on_train_batch_start(self, batch, batch_idx):
            if self.global_step == 30:
                nn.init.constant_(self.first.bias, -1e3)

    [finding] = [finding for finding in watched(Dying()).findings if finding.rule == "watch/units-died"]
    assert "of 32 units of relu" in finding.what
    assert finding.place.function.endswith("forward")


def test_outputs_that_grow_without_bound_are_told_with_the_module(watched, net):
    class Growing(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            with torch.no_grad():
                self.first.weight *= 1.3

        def loss(self, batch):
            return super().loss(batch) * 0.01

    [finding] = [finding for finding in watched(Growing()).findings if finding.rule == "watch/outputs-drift"]
    assert finding.place.module in ("first", "head")


def test_two_optimizers_by_hand_without_validation_are_watched(watched, net, tmp_path):
    class Manual(net):
        validation_step = None

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(self.loss(batch))
                optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.SGD(self.first.parameters(), 0.1), torch.optim.Adam(self.head.parameters())]

    del Manual.validation_step
    verdict = watched(Manual(), limit_val_batches=0)
    assert verdict.status == "passed"
    assert {row["of"] for row in read(tmp_path) if row["series"] == "update_ratio"} == {"SGD[0]", "Adam[1]"}


def test_compiled_network_is_looked_into(watched, net, tmp_path):
    torch._dynamo.reset()
    module = net()
    module.first.compile(backend="eager")
    verdict = watched(module)
    assert (verdict.status, verdict.error) == ("passed", None)
    assert {row["of"] for row in read(tmp_path) if row["series"] == "output_scale"} == {"first", "head"}


def test_stream_without_a_length_is_watched(watched, net, data):
    class Stream(IterableDataset):
        def __iter__(self):
            return itertools.islice(itertools.cycle(iter(data().part(1))), 160)

    class Streamed(data):
        def train_dataloader(self):
            return DataLoader(Stream(), 16)

    assert watched(net(), Streamed(), max_epochs=-1, max_steps=40).status == "passed"


def test_accumulated_batches_are_looked_at_where_the_optimizer_steps(watched, net, tmp_path):
    assert watched(net(), accumulate_grad_batches=2).status == "passed"
    rows = read(tmp_path)
    assert len([row for row in rows if row["series"] == "update_ratio"]) == len(
        [row for row in rows if (row["series"], row["of"]) == ("output_scale", "head")]
    )


def test_mistake_of_a_look_is_a_tool_error_and_training_goes_on(watched, net, monkeypatch):
    monkeypatch.setattr(Look, "_measure", lambda *_: 1 / 0)
    ended = []

    class End(Callback):
        def on_train_end(self, trainer, pl_module):
            ended.append(trainer.global_step)

    verdict = watched(net(), callbacks=[End()])
    assert verdict.status == "tool error"
    assert "ZeroDivisionError" in verdict.error
    assert ended == [10 * EPOCHS]


def test_training_of_a_few_steps_is_skipped(net, data):
    results = check(net(), data(), items=["watch"], trainer={"accelerator": "cpu", "max_steps": 4, "max_epochs": 1})
    assert results["watch"].status == "skipped"


def test_next_look_comes_when_the_time_of_all_steps_has_paid_for_it():
    pace = Pace(share=0.01)
    for _ in range(SETTLING):
        pace.add_step(1.0)
    assert pace.is_due
    pace.add_look(1.5)  # half a second more than a step takes: two of them are 1 % of 100 s
    assert not pace.is_due
    for _ in range(93):
        pace.add_step(1.0)
    assert not pace.is_due
    pace.add_step(1.0)
    assert pace.is_due
    assert pace.spent == 0.5


def test_timeline_stays_short_and_keeps_both_ends():
    timeline = Timeline(torch.device("cpu"))
    for step in range(8 * 5 * MOST):
        timeline.begin_step(step)
    assert MOST <= len(timeline.blocks) < 2 * MOST
    assert timeline.blocks[0].step < 8 * 5
    assert timeline.blocks[-1].step > 8 * 5 * (MOST - 8)
