import importlib
import math
import random
import sys
import time
from contextlib import suppress
from copy import deepcopy
from functools import partial
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from pytorch_lightning import LightningModule
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint, ModelPruning
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LambdaLR, MultiStepLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassPrecision, MulticlassRecall
from training_checklist import probes
from training_checklist.engines.rehearsal import rehearse
from training_checklist.engines.trial import exchanged
from training_checklist.lab import trained_copies
from training_checklist.lab.schedules import Rehearsal, Schedules
from training_checklist.probe import CannotJudge
from training_checklist.probes.learning.metric_arguments_exchanged import is_of
from training_checklist.probes.schedule import metric_not_there


def test_copies_that_a_callback_of_lightning_keeps_are_its_own_affair(examine, normed):
    verdict = examine("learning", normed(), more=[ModelPruning("l1_unstructured", amount=0.2)])
    assert verdict.status == "passed", verdict.findings


def test_weights_that_are_set_to_the_average_are_no_fault_of_its_decay(examine, net):
    class Lookahead(net):
        def on_train_start(self):
            self.slow = [weight.detach().clone() for weight in self.parameters()]

        @torch.no_grad()
        def on_train_batch_end(self, *_):
            for slow, weight in zip(self.slow, self.parameters(), strict=True):
                weight.copy_(slow.lerp_(weight, 0.8))

    verdict = examine("learning", Lookahead())
    assert verdict.status == "passed", verdict.findings


def test_step_that_refuses_other_samples_in_a_part_of_its_batch_is_judged_all_the_same(examine, net, data):
    """As one whose targets are of (time, batch): exchanged along their first dimension, they are no targets."""

    class Strict(net):
        def training_step(self, batch, batch_idx):
            assert torch.equal(batch[2], torch.arange(len(batch[2])))
            return self.loss(batch[:2])

        def validation_step(self, batch, batch_idx):
            self.training_step(batch, batch_idx)

    class Numbered(data):
        def train_dataloader(self):
            loader = super().train_dataloader()
            collate = loader.collate_fn
            loader.collate_fn = lambda samples: [*collate(samples), torch.arange(len(samples))]
            return loader

        def val_dataloader(self):
            return self.train_dataloader()

    verdict = examine("learning", Strict(), Numbered())
    assert (verdict.status, verdict.error) == ("passed", None), verdict


@pytest.mark.parametrize("item", ["learning", "overfit"])
def test_module_without_an_optimizer_is_no_mistake_of_the_checklist(examine, net, item):
    class Fixed(net):
        def configure_optimizers(self):
            return None

    verdict = examine(item, Fixed())
    assert verdict.error is None
    assert {each.rule for each in verdict.findings} <= {"overfit/unexplained"}


class Lowest(Callback):
    """Waits for a metric, without which it does nothing yet."""

    def __init__(self, monitor):
        self.monitor = monitor


@pytest.mark.parametrize(("name", "found"), [("val/later", []), ("val/latter", ["learning/monitor-not-logged"])])
def test_own_callback_may_wait_for_what_is_not_logged_yet(examine, net, name, found):
    class Later(net):
        def validation_step(self, batch, batch_idx):
            self.log("val/loss", self.loss(batch))
            if self.current_epoch > 10:
                self.log("val/later", self.loss(batch))

    assert [each.rule for each in examine("learning", Later(), more=[Lowest(name)]).findings] == found


class Measured:
    """Mixed into a network: logs loss and accuracy of both stages as they should be."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.train_accuracy = MulticlassAccuracy(4, average="micro")
        self.val_accuracy = MulticlassAccuracy(4, average="micro")

    def training_step(self, batch, batch_idx):
        self.train_accuracy(self(batch[0]), batch[1])
        self.log("train/accuracy", self.train_accuracy, on_step=False, on_epoch=True)
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.val_accuracy(self(batch[0]), batch[1])
        self.log("val/accuracy", self.val_accuracy)
        self.log("val/loss", self.loss(batch))


def judge(examine, module, data=None, **trainer):
    verdict = examine("learning", module, data, **{"max_epochs": 5} | trainer)
    assert verdict.status == "failed"
    [finding] = verdict.findings
    return finding


def test_healthy_network_passes_and_is_left_as_it_was(examine, net):
    class Plain(Measured, net):
        def on_train_start(self):  # comes after the attempts of the check
            self.at_start = {key: value.clone() for key, value in self.state_dict().items()}

    module = Plain()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    verdict = examine("learning", module, max_epochs=5)
    assert verdict.status == "passed", verdict.findings
    assert all(torch.equal(before[key], module.at_start[key]) for key in before)
    assert "validation_step" not in vars(module)
    assert verdict.facts["deviations"] > 4


@pytest.mark.parametrize("lr", [1e-4, 1e-2])
@pytest.mark.parametrize("kind", ["Adam", "RMSprop", "SGD"])
def test_sensible_learning_rates_raise_no_alarm(examine, net, kind, lr):
    class Choosing(net):
        def configure_optimizers(self):
            momentum = {"momentum": 0.9} if kind == "SGD" else {}
            return getattr(torch.optim, kind)(self.parameters(), lr=10 * lr if momentum else lr, **momentum)

    verdict = examine("learning", Choosing(), max_epochs=5)
    assert verdict.status == "passed", verdict.findings


@pytest.mark.parametrize(
    ("schedule", "interval"),
    [
        (lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5), "epoch"),
        (lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50), "step"),
        (lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, 50), "step"),
        (lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4]), "epoch"),
        (lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 20)), "step"),
        (lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5), "step"),
        (lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 50), "epoch"),
        (lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), "epoch"),
        (lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=8), "epoch"),
        (lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), "epoch"),
    ],
)
def test_schedules_that_fit_raise_no_alarm(examine, net, schedule, interval):
    class Scheduled(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            config = {"scheduler": schedule(optimizer), "interval": interval, "monitor": "val/loss"}
            return {"optimizer": optimizer, "lr_scheduler": config}

    verdict = examine("learning", Scheduled(), max_epochs=5)
    assert verdict.status == "passed", verdict.findings


def test_frozen_part_in_eval_mode_raises_no_alarm(examine, net):
    class Frozen(net):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).eval()
            self.backbone.requires_grad_(False)

        def forward(self, inputs):
            return super().forward(inputs + self.backbone(inputs))

    assert examine("learning", Frozen(), max_epochs=5).status == "passed"


def behind(net, layer):
    """A network whose inputs go through `layer` first."""

    class With(net):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, inputs):
            return super().forward(self.layer(inputs))

    return With()


@pytest.mark.parametrize(
    ("layer", "what", "setting"),
    [
        (nn.BatchNorm1d(8, momentum=0.0), "after all 50 batches 100% of the running statistics of layer", "momentum=0"),
        (nn.BatchNorm1d(8, momentum=1e-3), "after all 50 batches 95% of the running", "momentum=0.001"),
        (
            nn.BatchNorm1d(8, track_running_stats=False),
            "layer keeps no running statistics",
            "track_running_stats=False",
        ),
    ],
)
def test_layer_that_cannot_do_its_work_is_named(examine, net, layer, what, setting):
    found = examine("learning", behind(net, layer), max_epochs=5).findings
    [finding] = [each for each in found if each.what.startswith(what)]
    assert setting in finding.what
    assert finding.place.module == "layer"


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(8), nn.BatchNorm1d(8, momentum=None), nn.InstanceNorm1d(8)])
def test_usual_norms_raise_no_alarm(examine, net, layer):
    verdict = examine("learning", behind(net, layer), max_epochs=5)
    assert verdict.status == "passed", verdict.findings


def test_schedule_that_waits_for_the_worse_is_named(examine, net):
    class Waiting(Measured, net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/accuracy"}}

    finding = judge(examine, Waiting())
    assert finding.what == "ReduceLROnPlateau has mode=min, but more of val/accuracy is better"


@pytest.mark.parametrize(
    ("metric", "said"),
    [("val/accuracy", "more of val/accuracy is better"), ("val/matched", "more of val/matched is better: ")],
)
def test_callback_that_keeps_the_worst_is_named_by_the_metrics_name_or_by_its_values(examine, net, metric, said):
    class Keeping(Measured, net):
        mode = "min"

        def validation_step(self, batch, batch_idx):
            super().validation_step(batch, batch_idx)
            self.log("val/matched", (self(batch[0]).argmax(1) == batch[1]).float().mean())

        def configure_callbacks(self):
            return [EarlyStopping(metric, mode=self.mode, patience=9)]

    class Right(Keeping):
        mode = "max"

    finding = judge(examine, Keeping())
    assert finding.what.startswith(f"EarlyStopping has mode=min, but {said}")
    assert examine("learning", Right(), max_epochs=5).status == "passed"


def test_regression_is_judged_without_classes(examine, data):
    class Regression(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch, batch_idx):
            return functional.mse_loss(self.layer(batch["x"])[:, 0], batch["y"])

        def validation_step(self, batch):
            self.log("val/loss", self.training_step(batch, 0))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.03)

    class Pairs(data):
        def rows(self, seed):
            inputs, _ = self.part(seed).tensors
            return [{"x": row, "y": row.sum()} for row in inputs]

        def train_dataloader(self):
            return DataLoader(self.rows(1), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(self.rows(2), 16)

    verdict = examine("learning", Regression(), Pairs(), max_epochs=5)
    assert verdict.status == "passed", verdict.findings
    assert verdict.facts["deviations"] > 4


@pytest.mark.parametrize("fault", ["shuffled", "zeros", "zeros by hand"])
def test_regression_that_learns_no_more_than_the_mean_does_not_pass(examine, data, fault):
    class Regression(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

        def training_step(self, batch, batch_idx):
            inputs, wanted = batch
            answers = self.net(inputs if fault == "shuffled" else torch.zeros_like(inputs))
            return (answers - wanted).square().mean() if "hand" in fault else functional.mse_loss(answers, wanted)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    class Columns(data):
        def train_dataloader(self):
            generator = torch.Generator().manual_seed(0)
            inputs = torch.randn(512, 8, generator=generator)
            wanted = inputs.sum(1, keepdim=True) / 8**0.5
            order = torch.randperm(512, generator=generator) if fault == "shuffled" else torch.arange(512)
            return DataLoader(TensorDataset(inputs, wanted[order]), 32, shuffle=True)

    rule = "labels-unrelated" if fault == "shuffled" else "inputs-without-effect"
    [finding] = examine("learning", Regression(), Columns(), max_epochs=5).findings
    assert finding.rule == f"learning/{rule}"


def test_step_that_has_no_loss_in_eval_mode_is_no_error(examine, data):
    class Detector(LightningModule):
        """Has losses in training and detections in eval mode; nothing in its batch is only compared with."""

        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))

        def training_step(self, batch, batch_idx):
            inputs, labels = batch
            answers = self.net(torch.cat([inputs, functional.one_hot(labels, 4)], 1))
            return ({"loss": (answers - 1).square().mean()} if self.net.training else [answers])["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    verdict = examine("learning", Detector(), data(), max_epochs=5)
    assert (verdict.status, verdict.skipped) == ("passed", None)
    assert "cannot be taken in eval mode" in verdict.unjudged["learning/inputs-without-effect"]


def test_labels_that_no_step_reads_are_not_exchanged_where_a_criterion_is_given_its_answers_second(examine, net):
    class Restoring(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 8)

        def loss(self, batch):
            return functional.mse_loss(batch[0], self(random.choice([0.9, 1.0, 1.1]) * batch[0]))

    assert [each.rule for each in examine("learning", Restoring()).findings] == []


def test_metric_that_is_given_lists_ends_no_run(examine, net):
    class AveragePrecisionOfBoxes(Metric):
        def update(self, preds, target):
            pass

        def compute(self):
            return torch.tensor(0.5)

    class Detecting(net):
        def __init__(self):
            super().__init__()
            self.precision = AveragePrecisionOfBoxes()

        def validation_step(self, batch, batch_idx):
            super().validation_step(batch, batch_idx)
            self.precision.update([{"boxes": batch[0]}], [{"boxes": batch[0]}])

    verdict = examine("learning", Detecting())
    assert (verdict.status, verdict.skipped) == ("passed", None)


class TestLoss:
    def test_labels_that_belong_to_other_inputs(self, examine, net, data):
        class Shuffled(data):
            def train_dataloader(self):
                generator = torch.Generator().manual_seed(2)
                inputs, labels = torch.randn(320, 8, generator=generator), torch.arange(320) % 4
                return DataLoader(TensorDataset(inputs, labels), 16, shuffle=True)

        torch.manual_seed(0)  # by chance, labels of some draws do have to do with inputs
        [finding] = examine("learning", net(lr=0.03), Shuffled(), max_epochs=5).findings
        assert (finding.rule, finding.place.loader) == ("learning/labels-unrelated", "train_dataloader")
        assert "exchanged labels" in finding.what

    def test_positions_without_a_label_are_no_samples_of_a_class(self, examine, net, data):
        class OneAnswer(net):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(32, 8 * 40)

            def loss(self, batch):
                return functional.cross_entropy(self(batch[0]).view(-1, 40), batch[1].flatten())

            def validation_step(self, batch, batch_idx):
                pass

        class MostlyIgnored(data):
            def train_dataloader(self):
                generator = torch.Generator().manual_seed(2)
                labels = torch.full((320, 8), -100)
                labels[:, 3] = torch.randint(40, (320,), generator=generator)
                return DataLoader(TensorDataset(torch.randn(320, 8, generator=generator), labels), 32, shuffle=True)

        verdict = examine("learning", OneAnswer(), MostlyIgnored(), max_epochs=5)
        assert "too few samples" in verdict.unjudged["learning/labels-unrelated"]

    def test_loss_of_exchanged_targets_has_a_time_of_its_own(self, examine, net, data, monkeypatch):
        class Larger(data):
            def train_dataloader(self):
                inputs = torch.randn(320, 8, generator=torch.Generator().manual_seed(2))
                return DataLoader(TensorDataset(inputs, inputs[:, :4].argmax(1)), 16, shuffle=True)

        late = []

        def slow(*given):
            late.append(1000.0)
            return exchanged(*given)

        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(late))
        monkeypatch.setattr(trained_copies, "time", clock)
        monkeypatch.setattr(trained_copies, "exchanged", slow)
        verdict = examine("learning", net(lr=0.03), Larger(), max_epochs=5)
        assert verdict.status == "passed"
        assert "no time" in verdict.unjudged["learning/labels-unrelated"]

    def test_network_that_answers_the_same_to_everything(self, examine, net):
        class Blind(net):
            def forward(self, inputs):
                return super().forward(torch.zeros_like(inputs))

        assert "do not depend on its inputs" in judge(examine, Blind()).why

    def test_answers_that_only_dropout_makes_differ(self, examine, net):
        class Blind(net):
            def forward(self, inputs):
                hidden = self.first(torch.zeros_like(inputs))
                return self.head(functional.dropout(torch.relu(hidden), 0.5, self.training))

        assert "do not depend on its inputs" in judge(examine, Blind()).why

    def test_partial_losses_that_are_summed(self, examine, net):
        class Halved(net):
            def training_step(self, batch, batch_idx):
                halves = zip(*(part.chunk(2) for part in batch), strict=True)
                return sum(self.loss(half) for half in halves)

        [finding] = examine("learning", Halved(), max_epochs=5).findings
        assert finding.rule == "learning/loss-adds-up"
        assert "2 means, each over its own part of the batch's 16 labels" in finding.what
        assert ", 2 times the mean over the batch" in finding.what
        assert finding.place.function.endswith(".loss")

    def test_criterion_that_sums(self, examine, net):
        class Summing(net):
            def loss(self, batch):
                return functional.cross_entropy(self(batch[0]), batch[1], reduction="sum")

        verdict = examine("learning", Summing(), max_epochs=5)
        assert ["the loss is the criterion's sum over 16 labels" in each.what for each in verdict.findings] == [True]

    @pytest.mark.parametrize("divided", [True, False])
    def test_sums_that_are_meant_raise_no_alarm(self, examine, net, divided):
        """Halves whose mean is taken, and classes that are weighed against one another."""

        class Meant(net):
            def training_step(self, batch, batch_idx):
                inputs, labels = batch
                if divided:
                    return sum(self.loss(half) for half in zip(inputs.chunk(2), labels.chunk(2), strict=True)) / 2
                few = labels < 2
                return self.loss([inputs[few], labels[few]]) + self.loss([inputs[~few], labels[~few]])

        verdict = examine("learning", Meant(), max_epochs=5)
        assert verdict.status == "passed", verdict.findings

    def test_criterion_that_is_only_logged_has_no_labels(self, examine, net, data):
        class Noisy(data):
            def part(self, seed):
                inputs = super().part(seed).tensors[0]
                return TensorDataset(inputs, inputs + 0.1 * torch.randn(inputs.shape))

        class Encoding(net):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(32, 8)

            def training_step(self, batch, batch_idx):
                with torch.no_grad():
                    self.log("train/noise", nn.functional.mse_loss(*batch))
                return nn.functional.mse_loss(batch[0], self(batch[0]))

            def validation_step(self, batch, batch_idx):
                self.log("val/loss", nn.functional.mse_loss(batch[0], self(batch[0])))

        verdict = examine("learning", Encoding(), Noisy())
        assert "learning/inputs-without-effect" not in [each.rule for each in verdict.findings], verdict


@pytest.mark.parametrize("blind", [False, True])
def test_running_statistics_that_lag_behind_hide_no_effect_of_the_inputs(examine, net, data, blind):
    class Encoding(net):
        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(32, momentum=1e-6, affine=False), nn.Linear(32, 8)
            self.net = nn.Sequential(nn.Linear(8, 32), self.norm, nn.Tanh(), self.head)

        def training_step(self, batch, batch_idx):
            inputs = batch[0]
            # Far from 0, so that a norm by running statistics of 0 and 1 makes one answer of all.
            seen = torch.zeros_like(inputs) if blind else inputs
            return nn.functional.mse_loss(self.net(seen + 1e4), inputs)

        def validation_step(self, batch, batch_idx):
            self.log("val/loss", self.training_step(batch, batch_idx))

    found = [each.rule for each in examine("learning", Encoding()).findings]
    assert ("learning/inputs-without-effect" in found) == blind

    def test_list_that_a_hook_makes_as_an_epoch_begins_is_there_for_copies(self, examine, net):
        class Listing(net):
            def on_train_epoch_start(self):
                self.losses = []

            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                self.losses.append(loss.detach())
                return loss

        verdict = examine("learning", Listing())
        assert verdict.status == "passed", verdict
        assert "in 20 steps" in verdict.seen

    def test_first_loss_far_above_chance(self, examine, net):
        class Sure(net):
            def forward(self, inputs):
                return 100 * super().forward(inputs)

        finding = judge(examine, Sure())
        assert "ln 4 = 1.386" in finding.what
        assert finding.rule == "learning/first-loss-above-chance"


class TestRate:
    @pytest.mark.parametrize(("lr", "too"), [(1e-8, "low"), (30.0, "high")])
    def test_learning_rate(self, examine, net, lr, too):
        finding = judge(examine, net(lr=lr))
        assert finding.where == f"optimizer.lr={lr:.3g}"
        assert f"too {too}" in finding.why
        [override] = finding.fix.overrides
        assert override.startswith("optimizer.lr=")

    def test_loss_that_nothing_makes_fall(self, examine, net):
        class Rising(net):
            """Maximises what it reports, as with a reward that is logged in place of its negative."""

            def loss(self, batch):
                loss = super().loss(batch)
                return loss - 2 * (loss - loss.detach())

        verdict = examine("learning", Rising(), max_epochs=5)
        assert verdict.status == "warning"
        [finding] = verdict.findings
        assert finding.rule == "learning/loss-does-not-fall"
        assert "optimizer.lr=1e-05" in finding.what

    def test_gradients_that_are_clipped_away(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.3)

        finding = judge(examine, Descending(), gradient_clip_val=1e-6)
        assert finding.where == "trainer.gradient_clip_val=1e-06"

    def test_weight_decay_that_is_stronger_than_the_loss(self, examine, net):
        class Decaying(net):
            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters(), lr=0.01, weight_decay=50)

        assert judge(examine, Decaying()).where == "optimizer.weight_decay=50"


@pytest.mark.parametrize("part", ["weight", ""])
def test_average_that_passes_some_weights_by(examine, net, part):
    class Bootstrap(net):
        def __init__(self):
            super().__init__()
            self.target = deepcopy(self.first).requires_grad_(False)

        def on_train_batch_end(self, *_):
            with torch.no_grad():
                for name, target in self.target.named_parameters():
                    if part in name:
                        target.lerp_(self.first.get_parameter(name), 0.1)

    found = examine("learning", Bootstrap(), max_epochs=5).findings
    assert [each.rule for each in found] == (["learning/average-of-some-weights"] if part else [])


def test_teacher_that_moves_in_validation(examine, net):
    class Distilled(net):
        def __init__(self):
            super().__init__()
            self.teacher = deepcopy(self.first).requires_grad_(False)

        def validation_step(self, batch, batch_idx):
            with torch.no_grad():
                for teacher, weight in zip(self.teacher.parameters(), self.first.parameters(), strict=True):
                    teacher.lerp_(weight, 0.1)
            self.log("val/loss", self.loss(batch))

    rules = [each.rule for each in examine("learning", Distilled(), max_epochs=5).findings]
    assert "learning/validation-changes-weights" in rules


def test_accuracy_of_mixed_samples_is_nobodys_mistake(examine, net):
    class Mixed(net):
        def __init__(self):
            super().__init__()
            self.accuracy = MulticlassAccuracy(4, average="micro")

        def training_step(self, batch, batch_idx):
            inputs, labels = batch
            share, other = torch.rand(()), torch.randperm(len(inputs))
            logits = self(share * inputs + (1 - share) * inputs[other])
            self.accuracy(logits, labels)
            self.log("train/accuracy", self.accuracy, on_step=False, on_epoch=True)
            one, two = functional.cross_entropy(logits, labels), functional.cross_entropy(logits, labels[other])
            return share * one + (1 - share) * two

    assert examine("learning", Mixed(), max_epochs=5).findings == []


def test_frozen_backbone_is_kept_in_eval_mode(examine, net):
    class Frozen(net):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.1)).requires_grad_(False)

        def on_train_epoch_start(self):
            self.backbone.eval()

        def forward(self, inputs):
            return super().forward(self.backbone(inputs))

    assert examine("learning", Frozen(), max_epochs=5).findings == []


class TestSchedule:
    def judge(self, examine, net, make, returned=True, trainer=(), **config):
        class Scheduled(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                schedule = {"scheduler": make(optimizer), **config}
                return {"optimizer": optimizer, "lr_scheduler": schedule} if returned else optimizer

        return judge(examine, Scheduled(), **dict(trainer))

    def test_written_for_epochs_and_stepped_by_batches(self, examine, net):
        finding = self.judge(examine, net, lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5), interval="step")
        assert finding.place.function.endswith(".configure_optimizers")
        assert finding.place.line
        assert finding.where.endswith("lr_scheduler StepLR(step_size=1, gamma=0.5) with interval=step")
        assert "falls from 0.01 to 9.8e-06 within the first epoch" in finding.what

    def test_two_milestones_of_epochs_that_are_stepped_by_batches(self, examine, net):
        finding = self.judge(examine, net, partial(MultiStepLR, milestones=[3, 4]), interval="step")
        assert finding.rule == "schedule/counted-in-epochs"

    def test_first_change_beyond_the_lesser_of_two_limits(self, examine, net):
        finding = self.judge(examine, net, lambda o: StepLR(o, 900), interval="step", trainer={"max_steps": 1000})
        assert finding.what.startswith("call 900 is the first that changes a rate, and the run has 50 steps")

    def test_leap_from_the_end_of_warming_up(self, examine, net):
        factors = [0.1, 0.2, 0.3, 0.4, 1.0, 0.5]

        class Leaping(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [LambdaLR(optimizer, lambda epoch: factors[min(epoch, 5)])]

        [finding] = examine("learning", Leaping(), max_epochs=5).findings
        assert finding.what == "the learning rate rises in even steps from 0.001 to 0.004, and call 4 makes it 0.01"

    @pytest.mark.parametrize(("whole", "interval"), [(5, "step"), (50, "epoch")])
    def test_length_in_the_wrong_unit(self, examine, net, whole, interval):
        make = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=whole)
        finding = self.judge(examine, net, make, interval=interval)
        assert f"made for {whole} calls" in finding.what

    def test_shorter_than_the_run(self, examine, net):
        finding = self.judge(examine, net, lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.01, 20), interval="step")
        assert "it ends after 20 calls, and the run has 50 steps" in finding.what

    def test_warm_up_of_steps_that_is_stepped_by_epochs(self, examine, net):
        def rate(step):
            return (step + 1) / 15 if step < 15 else max(0.01, 1 - (step - 15) / 35)

        finding = self.judge(examine, net, lambda o: torch.optim.lr_scheduler.LambdaLR(o, rate), interval="epoch")
        assert finding.what.startswith("it rises until call 14 and gets 5 in a run of 50 steps")

    def test_decay_that_is_made_for_one_epoch(self, examine, net):
        finding = self.judge(examine, net, by_lambda(cosine(10)), interval="step")
        assert finding.rule == "schedule/at-its-floor"
        assert finding.what.startswith("the learning rate falls from 0.01 to 0.0002 in 10 of 50 calls and stays there")
        assert finding.what.endswith("it is made for one epoch, of 5")

    def test_frequency_that_no_epoch_reaches(self, examine, net):
        make = partial(torch.optim.lr_scheduler.StepLR, step_size=1)
        finding = self.judge(examine, net, make, interval="step", frequency=100)
        assert "never stepped: frequency=100" in finding.what

    def test_schedule_that_is_not_returned(self, examine, net):
        finding = self.judge(examine, net, lambda o: torch.optim.lr_scheduler.StepLR(o, 1), returned=False)
        assert finding.rule == "schedule/never-stepped"
        assert finding.place.function.endswith(".configure_optimizers")

    def test_plateau_that_waits_for_what_nobody_logs(self, examine, net):
        finding = self.judge(examine, net, partial(ReduceLROnPlateau, mode="max"), monitor="val/acc")
        assert finding.what == "ReduceLROnPlateau monitors val/acc, which nobody logs; logged: val/loss"

    @pytest.mark.parametrize("hook", ["on_train_epoch_end", "on_train_batch_end"])
    def test_stepped_by_hand_beside_lightning(self, examine, net, hook):
        class ByHand(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)]

        def step(self, *_):
            self.lr_schedulers().step()

        setattr(ByHand, hook, step)
        finding = judge(examine, ByHand())
        times = {"on_train_epoch_end": 2, "on_train_batch_end": 16}[hook]
        assert finding.rule == "schedule/calls"
        assert f"2 turns to be stepped, and the project's own code has stepped it {times} times" in finding.what
        assert finding.place.source == "self.lr_schedulers().step()"

    def test_hook_that_steps_it_too_often(self, examine, net):
        class Twice(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)]

            def lr_scheduler_step(self, scheduler, metric):
                scheduler.step()
                scheduler.step()

        finding = judge(examine, Twice())
        assert "2 turns to be stepped, and lr_scheduler_step has called its step() 4 times" in finding.what

    def test_own_hook_that_steps_it_once_raises_no_alarm(self, examine, net):
        class Own(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)]

            def lr_scheduler_step(self, scheduler, metric):
                scheduler.step()

        assert examine("learning", Own(), max_epochs=5).status == "passed"

    def test_two_schedules_of_one_optimizer_raise_no_alarm(self, examine, net):
        class Both(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.001, total_iters=10)
                decay = torch.optim.lr_scheduler.MultiStepLR(optimizer, [4])
                return [optimizer], [{"scheduler": warm_up, "interval": "step"}, decay]

        assert examine("learning", Both(), max_epochs=5).status == "passed"

    @pytest.mark.parametrize(
        ("length", "hook", "found"),
        [
            (5, "on_train_epoch_end", ""),
            (50, "on_train_batch_end", ""),
            (5, "on_train_batch_end", "counted-in-epochs"),
            (50, "on_train_epoch_end", "counted-in-steps"),
        ],
    )
    def test_length_of_one_that_the_module_steps_is_judged_by_when_it_does(self, examine, net, length, hook, found):
        class ByHand(net):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False

            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length)]

            def training_step(self, batch, batch_idx):
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(self.loss(batch))
                optimizer.step()

        setattr(ByHand, hook, lambda self, *_: self.lr_schedulers().step())
        verdict = examine("learning", ByHand(), max_epochs=5)
        assert [each.rule for each in verdict.findings] == [f"schedule/{found}"] * bool(found)
        for each in verdict.findings:
            assert "stepped once" in each.where
            assert "call its step() once" in each.fix.advice

    @pytest.mark.filterwarnings("ignore:Detected call of")  # of torch, for the same reason
    def test_stepped_before_the_optimizer(self, examine, net):
        class Early(net):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False

            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)]

            def training_step(self, batch, batch_idx):
                self.lr_schedulers().step()
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(self.loss(batch))
                optimizer.step()

        [finding] = examine("learning", Early(), max_epochs=5).findings
        assert finding.rule == "schedule/before-the-optimizer"
        assert finding.place.source == "self.lr_schedulers().step()"


def by_lambda(factor):
    return lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def cosine(steps, warm_up=0, floor=0.02):
    def factor(step):
        if step < warm_up:
            return (step + 1) / warm_up
        done = min(1.0, (step - warm_up) / (steps - warm_up))
        return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2

    return factor


def judged(make, interval, batches=40, epochs=9):
    """What the rules say of a schedule in a run of so many epochs of so many batches: (rule, severity) of each hit."""
    scheduler = make(torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.01))
    course = [rate for [rate] in rehearse(scheduler, None, batches * epochs)[0]]
    per_epoch = batches if interval == "step" else 1
    lab = Schedules()
    lab.untold, lab.rehearsed = (
        "",
        [Rehearsal("schedule", interval, 1, batches, batches * epochs, epochs, per_epoch, course)],
    )
    hits = []
    for probe in probes.of_topics("schedule"):
        with suppress(CannotJudge):  # the rest of them ask what comes later
            hits += [(found.rule.partition("/")[2], found.severity) for found in probe.findings(lab, {})]
    return hits


@pytest.mark.parametrize(
    ("make", "interval", "rule", "severity"),
    [
        (by_lambda(cosine(40)), "step", "at-its-floor", "failed"),
        (by_lambda(cosine(36, warm_up=8)), "step", "at-its-floor", "failed"),
        (by_lambda(cosine(40, warm_up=39)), "step", "at-its-floor", "failed"),
        (by_lambda(cosine(40, floor=0)), "step", "at-its-floor", "failed"),
        (by_lambda(cosine(20, floor=0)), "step", "at-its-floor", "failed"),
        (by_lambda(cosine(100)), "step", "at-its-floor", "warning"),
        (partial(lr_scheduler.PolynomialLR, total_iters=60), "step", "at-its-floor", "warning"),
        (by_lambda(cosine(9)), "step", "counted-in-epochs", "failed"),
        (by_lambda(cosine(9, floor=0)), "step", "counted-in-epochs", "failed"),
        (partial(lr_scheduler.ExponentialLR, gamma=0.5), "step", "counted-in-epochs", "failed"),
        (by_lambda(cosine(360, warm_up=15)), "epoch", "counted-in-steps", "failed"),
    ],
)
def test_fault_of_a_schedule_has_one_owner(make, interval, rule, severity):
    assert judged(make, interval) == [(rule, severity)]


@pytest.mark.parametrize("batches", [200, 3000])
def test_exponential_decay_that_comes_to_the_least_number_is_counted_in_epochs(batches):
    make = partial(lr_scheduler.ExponentialLR, gamma=0.5)
    assert judged(make, "step", batches, epochs=20) == [("counted-in-epochs", "failed")]


def test_warm_up_that_the_run_does_not_come_to_the_end_of_is_counted_in_steps():
    assert judged(by_lambda(cosine(304, warm_up=15)), "epoch", 38, epochs=8) == [("counted-in-steps", "failed")]
    assert judged(by_lambda(cosine(100, warm_up=15)), "epoch", 38, epochs=8) == []


@pytest.mark.parametrize(
    ("make", "interval"),
    [
        (by_lambda(cosine(360, warm_up=20)), "step"),
        (by_lambda(cosine(180)), "step"),  # a run that goes on for as long again
        (by_lambda(cosine(40, floor=0.2)), "step"),
        (by_lambda(lambda step: min(1, (step + 1) / 20)), "step"),
        (by_lambda(lambda step: 0.1 ** min(2, step // 40)), "step"),
        (by_lambda(lambda step: min(1, (step + 1) / 8) * 0.1 ** (step >= 40)), "step"),
        (partial(lr_scheduler.MultiStepLR, milestones=[1, 2, 3]), "epoch"),
        (partial(lr_scheduler.StepLR, step_size=3), "epoch"),
        (partial(lr_scheduler.CosineAnnealingLR, T_max=40), "step"),
        (partial(lr_scheduler.CosineAnnealingWarmRestarts, T_0=40), "step"),
        (partial(lr_scheduler.ExponentialLR, gamma=0.9), "epoch"),
    ],
)
def test_decay_that_lasts_and_rates_in_steps_are_no_finding(make, interval):
    assert judged(make, interval) == []


class TestEpoch:
    """What is wrong only in some stage, or only in what is logged."""

    def unmeasured(self, net):
        class Unmeasured(net):
            def __init__(self):
                super().__init__()
                self.norm, self.drop = nn.BatchNorm1d(32), nn.Dropout(0.2)

            def forward(self, inputs):
                return self.head(self.drop(torch.relu(self.norm(self.first(inputs)))))

        return Unmeasured

    def normalised(self, net):
        class Normalised(Measured, self.unmeasured(net)):
            pass

        return Normalised

    def test_dropout_that_is_always_on(self, examine, net):
        class Dropping(net):
            def forward(self, inputs):
                return self.head(functional.dropout(torch.relu(self.first(inputs)), 0.2))

        finding = judge(examine, Dropping())
        assert "dropout is at work during validation" in finding.what
        assert "test_learning.py:" in finding.where

    def test_dropout_that_draws_several_answers_to_each_input(self, examine, net):
        class Sampling(net):
            def forward(self, inputs):
                times = 1 if self.training else 5
                answers = [functional.dropout(torch.relu(self.first(inputs)), 0.2) for _ in range(times)]
                return self.head(torch.stack(answers).mean(0))

        assert "learning/dropout-in-validation" not in [each.rule for each in examine("learning", Sampling()).findings]

    def test_dropout_that_validation_picks_to_be_at_work(self, examine, net):
        class Drawing(self.normalised(net)):
            def on_validation_model_eval(self):
                self.eval()
                for module in self.modules():
                    if isinstance(module, nn.Dropout):
                        module.train()

        found = {finding.rule for finding in examine("learning", Drawing(), max_epochs=5).findings}
        assert found.isdisjoint({"learning/training-mode-in-validation", "learning/dropout-in-validation"})

    def test_dropout_that_another_function_picks_to_be_at_work(self, examine, net, tmp_path, monkeypatch):
        code = """
            from torch import nn

            def draw(model):
                layers = [module for module in model.modules() if isinstance(module, nn.Dropout)]
                for layer in layers:
                    layer.train()
        """
        (tmp_path / "dropouts_of_this_test.py").write_text(dedent(code))
        monkeypatch.syspath_prepend(tmp_path)
        draw = importlib.import_module("dropouts_of_this_test").draw

        class Drawing(self.normalised(net)):
            def validation_step(self, batch, batch_idx):
                draw(self)
                super().validation_step(batch, batch_idx)
                self.eval()

        found = {finding.rule for finding in examine("learning", Drawing(), max_epochs=5).findings}
        del sys.modules["dropouts_of_this_test"]
        assert found.isdisjoint({"learning/training-mode-in-validation", "learning/dropout-in-validation"})

    def test_norm_that_a_hook_has_take_in_training_samples_beside_validation(self, examine, net):
        class Recalibrated(net):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8)

            def forward(self, inputs):
                return super().forward(self.norm(inputs))

            def on_validation_start(self):
                self.train()
                self(torch.randn(16, 8))
                self.eval()

        found = {finding.rule for finding in examine("learning", Recalibrated()).findings}
        assert "learning/training-mode-in-validation" not in found

    def test_training_mode_in_validation(self, examine, net):
        class Training(self.normalised(net)):
            def on_validation_epoch_start(self):
                self.train()

        verdict = examine("learning", Training(), max_epochs=5)
        found = {finding.rule: finding.place.module for finding in verdict.findings}
        assert found["learning/training-mode-in-validation"] == "norm, drop"
        assert found["learning/dropout-in-validation"] == "drop (Dropout)"

    def test_eval_mode_in_training(self, examine, net):
        assert judge(examine, self.normalised(net)().eval()).where == "norm, drop"

    def test_validation_that_calls_the_training_step_is_in_eval_mode_as_it_should_be(self, examine, net):
        class Same(self.unmeasured(net)):
            def validation_step(self, batch, batch_idx):
                self.log("val/loss", self.training_step(batch, batch_idx))

        verdict = examine("learning", Same(), max_epochs=5)
        assert verdict.status == "passed", verdict.findings

    def test_batch_norm_of_two_samples(self, examine, net, data):
        finding = judge(examine, self.normalised(net)(), data(batch_size=2))
        assert finding.where == "norm"
        assert "2 samples" in finding.what

    def test_healthy_modes_raise_no_alarm(self, examine, net):
        verdict = examine("learning", self.normalised(net)(), max_epochs=5)
        assert verdict.status == "passed", verdict.findings

    def test_validated_copy_that_is_never_updated(self, examine, net):
        class Averaging(net):
            def __init__(self):
                super().__init__()
                self.average = nn.Linear(8, 4).requires_grad_(False)

            def validation_step(self, batch, batch_idx):
                self.log("val/loss", functional.cross_entropy(self.average(batch[0]), batch[1]))

        finding = judge(examine, Averaging())
        assert (finding.rule, finding.place.module) == ("learning/validated-network-stays", "average")

    def test_mean_over_batches_of_unequal_size(self, examine, net, data):
        class Unweighted(net):
            def validation_step(self, batch, batch_idx):
                self.log("val/loss", self.loss(batch), batch_size=1)

        class Sorted(data):
            def part(self, seed):
                inputs, labels = super().part(seed).tensors
                return TensorDataset(inputs * torch.where(torch.arange(160) < 128, 1, 4)[:, None], labels)

        torch.manual_seed(0)  # by how much the two means differ depends on the weights
        finding = judge(examine, Unweighted(), Sorted(batch_size=64))
        assert finding.where == "self.log('val/loss', ...) in validation_step"
        assert "the mean over batches" in finding.what

    @pytest.mark.parametrize("in_dict", [False, True])
    def test_sum_that_is_kept_over_epochs_is_told_once(self, examine, net, in_dict):
        class Keeping(net):
            def __init__(self):
                super().__init__()
                self.losses, self.others = [], {"loss": []}

            def validation_step(self, batch, batch_idx):
                if in_dict:
                    self.others["loss"].append(self.loss(batch))
                else:
                    self.losses.append(self.loss(batch))

            def on_validation_epoch_end(self):
                self.log("val/loss", torch.stack(self.others["loss"] or self.losses).mean())

        told = "the mean over all epochs so far" if in_dict else "self.losses holds"
        assert told in judge(examine, Keeping()).what

    def test_one_metric_for_two_stages(self, examine, net):
        class Sharing(Measured, net):
            def __init__(self):
                super().__init__()
                self.val_accuracy = self.train_accuracy

        finding = judge(examine, Sharing())
        assert finding.where == "train_accuracy (MulticlassAccuracy)"

    def test_metric_that_is_never_reset(self, examine, net):
        class Keeping(net):
            def __init__(self):
                super().__init__()
                self.accuracy = MulticlassAccuracy(4)

            def validation_step(self, batch, batch_idx):
                self.accuracy.update(self(batch[0]), batch[1])

            def on_validation_epoch_end(self):
                self.log("val/accuracy", self.accuracy.compute())

        assert judge(examine, Keeping()).where == "accuracy (MulticlassAccuracy)"

    @pytest.mark.parametrize(
        ("metric", "order", "wrong"),
        [
            (MulticlassPrecision(4, average="micro"), "exchanged", False),  # the same both ways
            (MulticlassPrecision(4), "exchanged", True),
            (MulticlassPrecision(4), "named", True),
            (MulticlassPrecision(4), "usual", False),
            (MulticlassPrecision(4), "within itself", False),
            (MetricCollection({"p": MulticlassPrecision(4), "r": MulticlassRecall(4)}), "exchanged", True),
        ],
    )
    def test_arguments_of_a_metric(self, examine, net, metric, order, wrong):
        class Measuring(net):
            def __init__(self):
                super().__init__()
                self.score = metric

            def validation_step(self, batch, batch_idx):
                inputs, labels = batch
                answers = self(inputs).argmax(1)
                if order == "exchanged":
                    self.score.update(labels, answers)
                elif order == "named":
                    self.score.update(target=answers, preds=labels.int())
                else:
                    self.score.update(labels if order == "within itself" else answers, labels)

            def on_validation_epoch_end(self):
                self.score.reset()

        found = [each for each in examine("learning", Measuring()).findings if "exchanged" in each.rule]
        assert bool(found) is wrong
        for each in found:
            assert "is given batch[1] as the predictions" in each.what
            assert each.place.file.endswith("test_learning.py")
            assert "self.score.update" in each.place.source

    def test_checkpoint_that_monitors_what_nobody_logs(self, examine, net, tmp_path):
        class Watched(net):
            def configure_callbacks(self):
                return [ModelCheckpoint(tmp_path, monitor="val/lass")]

        finding = judge(examine, Watched(), enable_checkpointing=True)
        assert finding.where == "ModelCheckpoint(monitor='val/lass')"
        assert "val/loss" in finding.fix.advice

    def test_checkpoint_that_counts_steps_or_epochs(self, examine, net, tmp_path):
        class Watched(net):
            def configure_callbacks(self):
                return [ModelCheckpoint(tmp_path / name, monitor=name, mode="max") for name in ("step", "epoch")]

        assert not examine("learning", Watched(), enable_checkpointing=True).findings


class Gathering(Metric):
    """Keeps what it gathers in a plain list."""

    def __init__(self, registered):
        super().__init__()
        if registered:
            self.add_state("seen", default=[], dist_reduce_fx="cat")
        else:
            self.seen = []

    def update(self, values):
        self.seen.append(values)

    def compute(self):
        return torch.cat([each.flatten() for each in self.seen]).mean()


class TestBetween:
    @pytest.mark.parametrize("registered", [False, True])
    def test_metric_with_a_plain_list(self, examine, net, registered):
        class Measuring(net):
            def __init__(self):
                super().__init__()
                self.gathering = Gathering(registered)

            def validation_step(self, batch, batch_idx):
                self.gathering.update(self(batch[0]))
                self.log("val/mean", self.gathering)

        found = [each for each in examine("learning", Measuring()).findings if "registered" in each.rule]
        assert ["changes seen" in each.what for each in found] == [True] * (not registered)

    @pytest.mark.parametrize("updated", [False, True])
    def test_metric_that_is_computed_of_nothing(self, examine, net, updated):
        class Measuring(net):
            def __init__(self):
                super().__init__()
                self.accuracy = MulticlassAccuracy(4)
                self.percent = 100 * self.accuracy

            def validation_step(self, batch, batch_idx):
                if updated:
                    self.accuracy.update(self(batch[0]), batch[1])

            def on_validation_epoch_end(self):
                self.log("val/accuracy", self.percent.compute())
                self.accuracy.reset()

        found = [each.rule for each in examine("learning", Measuring()).findings]
        assert found == ["learning/metric-never-updated"] * (not updated)

    @pytest.mark.parametrize("last", [None, 3])
    def test_epoch_that_a_hook_ends(self, examine, net, last):
        class Ending(net):
            def on_train_batch_start(self, batch, batch_idx):
                return -1 if batch_idx == last else None

        found = [each for each in examine("learning", Ending()).findings if each.rule == "learning/epoch-cut-short"]
        assert ["ends after 3 of" in each.what for each in found] == [True] * (last is not None)
        assert all("on_train_batch_start" in each.place.function for each in found)

    @pytest.mark.parametrize("kind", ["persistent", "new each epoch", "none", "by loading"])
    def test_dataset_that_a_hook_changes(self, examine, net, data, kind):
        class Ramped(Dataset):
            def __init__(self, inner):
                self.inner, self.strength, self.loaded = inner, 0.0, 0

            def __len__(self):
                return len(self.inner)

            def __getitem__(self, index):
                self.loaded += 1
                return self.inner[index]

        class Ramp(data):
            def train_dataloader(self):
                self.ramped = Ramped(self.part(1))
                workers = {"num_workers": 2, "persistent_workers": kind != "new each epoch"} if kind != "none" else {}
                return DataLoader(self.ramped, batch_size=16, shuffle=True, **workers)

        class Ramping(net):
            def on_train_epoch_start(self):
                if kind != "by loading":
                    self.trainer.datamodule.ramped.strength = 0.1 * self.current_epoch

        found = [each for each in examine("learning", Ramping(), Ramp()).findings if "workers" in each.rule]
        assert ["dataset.strength: 0.0 -> 0.1" in each.what for each in found] == [True] * (kind == "persistent")

    @pytest.mark.parametrize("squares", [False, True])
    def test_function_that_returns_a_rate(self, examine, net, squares):
        class Scheduled(net):
            def configure_optimizers(self):
                optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
                schedule = LambdaLR(optimizer, lambda step: min(1, step / 10) * (0.01 if squares else 1))
                return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

        found = [each for each in examine("learning", Scheduled()).findings if each.rule.startswith("schedule/")]
        assert ["its square" in each.what for each in found] == [True] * squares


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (lambda target: target, True),
        (lambda target: target * 12.5 + 300, True),
        (lambda target: -target.double(), True),
        (lambda target: target + 0.01 * torch.randn(64), False),
        (lambda target: target.exp(), False),
        (lambda target: torch.zeros(64), False),
        (lambda target: target[:32], False),
    ],
)
def test_tensor_in_another_unit_is_known_again(change, is_same):
    target = torch.randn(64, generator=torch.Generator().manual_seed(0))
    assert is_of(change(target), target) is is_same


@pytest.mark.parametrize(("every", "strict", "found"), [(2, True, 1), (1, True, 0), (2, False, 0), (None, True, 0)])
def test_schedule_that_waits_for_a_metric_of_every_second_epoch(examine, net, monkeypatch, every, strict, found):
    class Waiting(net):
        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            schedule = {"scheduler": ReduceLROnPlateau(optimizer), "monitor": "val/loss", "strict": strict}
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    config = OmegaConf.create({"trainer": {} if every is None else {"check_val_every_n_epoch": every}})
    monkeypatch.setattr(metric_not_there, "own_config", lambda: config)
    verdict = examine("learning", Waiting())
    assert [each.rule for each in verdict.findings] == ["schedule/metric-not-there"] * found


@pytest.mark.parametrize("steps_it", [False, True])
def test_schedule_that_nobody_steps_by_hand(examine, net, steps_it):
    class ByHand(net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer, _ = self.optimizers()  # the other one's turn does not come
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

        def on_train_epoch_end(self):
            if steps_it:
                self.lr_schedulers()[0].step()

        def configure_optimizers(self):
            optimizers = [torch.optim.Adam(self.parameters(), lr=0.01) for _ in range(2)]
            return optimizers, [lr_scheduler.StepLR(optimizer, 1, 0.999) for optimizer in optimizers]

    found = [each.rule for each in examine("learning", ByHand()).findings]
    assert found == ["schedule/never-stepped"] * (not steps_it)


def test_line_that_puts_the_network_into_eval_mode_before_training_is_named(examine, net):
    class Asleep(net):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.1))

        def on_fit_start(self):
            self.eval()

    [finding] = [each for each in examine("learning", Asleep()).findings if "eval-mode" in each.rule]
    assert finding.place.source == "self.eval()"


@pytest.mark.parametrize("mode", ["left in eval mode", "looked at in eval mode", "trained"])
def test_mode_is_that_of_the_training_step(examine, net, mode):
    class Probing(net):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.1))

        def on_train_epoch_end(self):
            if mode != "trained":
                self.eval()
                self(torch.randn(4, 8))
            if mode == "looked at in eval mode":
                self.train()

    found = {each.rule for each in examine("learning", Probing()).findings}
    assert ("learning/eval-mode-in-training" in found) is (mode == "left in eval mode")


@pytest.mark.parametrize(("by_epoch", "drawn"), [(True, False), (False, True)])
def test_order_that_is_the_same_in_each_epoch(examine, net, data, by_epoch, drawn):
    class Seeded:
        def __init__(self, samples):
            self.samples, self.seed, self.epoch = samples, 0, 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __len__(self):
            return self.samples // 16

        def __iter__(self):
            generator = torch.Generator().manual_seed(self.seed + (self.epoch if by_epoch else 0))
            return iter(torch.randperm(self.samples, generator=generator).reshape(-1, 16).tolist())

    class Loaded(data):
        def train_dataloader(self):
            part = self.part(1)
            return DataLoader(part, batch_sampler=Seeded(len(part)))

    class Telling(net):
        def on_train_epoch_start(self):
            self.trainer.train_dataloader.batch_sampler.set_epoch(self.current_epoch)

    found = [each.rule for each in examine("learning", Telling(), Loaded()).findings]
    assert found == ["data/same-order-every-epoch"] * drawn


def test_stream_that_counts_its_own_passes_is_no_finding(examine, net, data):
    class Counting(IterableDataset):
        def __init__(self, inner):
            self.inner, self.passes = inner, 0

        def __iter__(self):
            self.passes += 1
            return iter([self.inner[index] for index in range(len(self.inner))])

    class Streamed(data):
        def train_dataloader(self):
            return DataLoader(Counting(self.part(1)), 16, num_workers=2, persistent_workers=True)

    assert examine("learning", net(), Streamed()).findings == []


@pytest.mark.parametrize("epochs", [10_000, 1_000_000])
def test_run_of_very_many_steps_is_rehearsed_whole_or_not_at_all(examine, net, epochs):
    class Cycled(net):
        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            schedule = lr_scheduler.OneCycleLR(optimizer, 0.01, self.trainer.estimated_stepping_batches)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    verdict = examine("learning", Cycled(), max_epochs=epochs)
    assert verdict.findings == []
    assert ("schedule/warms-up-to-the-end" in verdict.judged) == (epochs == 10_000)


RATES = ["constant", "a factor", "one peak each", "one peak for all", "one by hand", "of groups by hand"]


@pytest.mark.parametrize("rates", RATES)
def test_rates_of_groups(examine, net, rates):
    class Grouped(net):
        def configure_optimizers(self):
            groups = [{"params": self.first.parameters(), "lr": 0.002}, {"params": self.head.parameters()}]
            optimizer = torch.optim.Adam(groups, lr=0.01)
            steps = self.trainer.estimated_stepping_batches
            peaks = {"one peak each": [0.002, 0.01], "one peak for all": 0.01}
            if rates == "a factor":
                schedule = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
            elif rates in peaks:
                schedule = lr_scheduler.OneCycleLR(optimizer, peaks[rates], steps)
            else:
                return optimizer
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

        def on_train_batch_start(self, batch, batch_idx):
            if "by hand" in rates:
                factor = min(1.0, (self.global_step + 1) / 5)
                for group in self.optimizers().param_groups:
                    base = 0.01 if rates == "one by hand" else group.setdefault("first", group["lr"])
                    group["lr"] = factor * base

    found = [each.rule for each in examine("learning", Grouped()).findings]
    assert found == ["schedule/groups-share-a-rate"] * (rates in ("one peak for all", "one by hand"))


def test_network_whose_loss_falls_late_is_given_time(examine, net):
    class Late(net):
        steps = 0

        def training_step(self, batch, batch_idx):
            self.steps += 1
            loss = self.loss(batch)
            return loss if self.steps > 120 else loss.detach() + 0.0 * loss

    found = {each.rule for each in examine("learning", Late()).findings}
    assert found.isdisjoint({"learning/loss-does-not-fall", "learning/setting-in-the-way"})


def stopping(**options):
    keeps = options.pop("keeps")
    mode = "max" if "accuracy" in keeps else "min"
    return [ModelCheckpoint(monitor=keeps, mode=mode), EarlyStopping(options.pop("stops"), **options)]


@pytest.mark.parametrize(
    ("choices", "rule"),
    [
        (stopping(keeps="val/loss", stops="val/accuracy", mode="max", min_delta=0.01), None),
        (stopping(keeps="train/accuracy", stops="val/loss"), "learning/chosen-by-training"),
        (stopping(keeps="val/loss", stops="train/accuracy", mode="max"), "learning/chosen-by-training"),
        (stopping(keeps="val/loss", stops="train/loss", stopping_threshold=1e-8, patience=1000), None),
        (stopping(keeps="val/loss", stops="val/accuracy", mode="max", min_delta=0.5), "learning/gain-out-of-reach"),
        (stopping(keeps="val/loss", stops="val/loss", min_delta=0.4), "learning/gain-out-of-reach"),
    ],
)
def test_what_checkpoints_are_chosen_and_training_is_stopped_by(examine, net, choices, rule):
    class Logging(Measured, net):
        pass

    found = [each.rule for each in examine("learning", Logging(), more=choices, enable_checkpointing=True).findings]
    assert found == ([] if rule is None else [rule])


def test_metric_of_validation_that_is_logged_by_step_and_by_epoch_has_two_names(examine, net):
    class Forked(Measured, net):
        def validation_step(self, batch, batch_idx):
            self.log("val/loss", self.loss(batch), on_step=True, on_epoch=True)

    choices = stopping(keeps="val/loss_epoch", stops="val/loss")
    assert examine("learning", Forked(), more=choices, enable_checkpointing=True).findings == []


def test_value_that_is_none_until_an_epoch_begins_is_there_for_copies(examine, net):
    class Late(net):
        factor = None

        def on_train_epoch_start(self):
            self.factor = 1.0

        def training_step(self, batch, batch_idx):
            return self.factor * self.loss(batch)

    verdict = examine("learning", Late())
    assert verdict.status == "passed"
    assert "a copy of the network" not in verdict.seen


@pytest.mark.parametrize(("steps", "epochs", "ends"), [(4, 5, True), (4, 1, False), (40, 5, False), (-1, 5, False)])
def test_run_that_ends_in_the_first_of_several_epochs(examine, net, steps, epochs, ends):
    found = [each.rule for each in examine("learning", net(), max_steps=steps, max_epochs=epochs).findings]
    assert ("learning/ends-in-the-first-epoch" in found) == ends


@pytest.mark.parametrize("seldom", [True, False])
def test_schedule_that_is_stepped_by_hand_in_some_epochs_is_no_finding(examine, net, seldom):
    class ByHand(net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

    class InSomeEpochs(ByHand):
        def on_train_epoch_end(self):
            if (self.current_epoch + 1) % 5 == 0:
                self.lr_schedulers().step()

    verdict = examine("learning", InSomeEpochs() if seldom else ByHand(), max_epochs=10)
    assert ("schedule/never-stepped" in [each.rule for each in verdict.findings]) is not seldom


def test_schedule_of_a_run_of_one_step_may_end_with_it(examine, net):
    class OneCycle(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            steps = int(self.trainer.estimated_stepping_batches)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    verdict = examine("learning", OneCycle(), limit_train_batches=1, max_epochs=1)
    assert (verdict.error, [each.rule for each in verdict.findings]) == (None, [])
