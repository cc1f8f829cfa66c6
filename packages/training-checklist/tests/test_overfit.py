import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule
from pytorch_lightning.callbacks import LambdaCallback
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from training_checklist import probes
from training_checklist.lab import examples, one_batch, one_batch_trials


def test_healthy_network_memorises_a_batch(examine, net):
    verdict = examine("overfit", net())
    assert verdict.status == "passed"
    assert verdict.facts["accuracy"] == 1.0
    assert verdict.facts["last_loss"] <= 0.05 < verdict.facts["first_loss"]


def test_labels_without_a_pattern_are_memorised_too(examine, net, data):
    class Shuffled(data):
        def train_dataloader(self):
            inputs, labels = self.part(1).tensors
            return DataLoader(TensorDataset(inputs, labels[torch.randperm(len(labels))]), 16, shuffle=True)

    assert examine("overfit", net(), Shuffled()).status == "passed"


@pytest.mark.parametrize(("last", "since", "is_half"), [(0.4, 50, True), (0.4, 150, False), (0.6, 50, False)])
def test_network_that_has_learnt_half_and_learns_on_is_not_judged(last, since, is_half):
    shares = {"min_fall": 0.05, "learnt": 0.5, "nearly": 0.1, "least_gain": 0.01}
    lengths = {"settled": 10, "max_steps": 300, "patience": 100, "seconds": 120}
    batch = one_batch.OneBatch(max_loss=0.05, min_accuracy=1.0, **shares, **lengths)
    batch.goal, batch.accuracy, batch.losses, batch.totals = 0.05, 0.5, [1.0, *[last] * 20], [1.0, *[last] * 20]
    batch.share, batch.steps, batch.best_step = None, 300, 300 - since
    assert batch.has_learnt_half == is_half


def test_batches_that_lightning_is_to_overfit_are_no_part_of_it(examine, net):
    assert examine("overfit", net(), overfit_batches=2).status == "passed"


@pytest.mark.parametrize("answers_first", [True, False])
def test_what_answers_are_compared_with_stands_on_either_side_of_a_criterion(answers_first):
    answers, images = torch.zeros(3, requires_grad=True), torch.ones(3)
    pair = (answers, images) if answers_first else (images, answers)
    assert one_batch_trials.compared_with(SimpleNamespace(input=pair[0], target=pair[1])) is images


def test_queue_of_earlier_answers_is_one_of_the_batchs_own_here(examine, net):
    class Contrasting(net):
        """Tells two views of a sample from the keys of earlier batches."""

        def __init__(self):
            super().__init__()
            self.register_buffer("queue", functional.normalize(torch.randn(64, 32), dim=1))
            self.filled = 0

        def view(self, inputs):
            return functional.normalize(
                self.head(torch.relu(self.first(inputs + 0.1 * torch.randn_like(inputs)))), dim=1
            )

        def training_step(self, batch, batch_idx):
            queries, keys = self.view(batch[0]), self.view(batch[0]).detach()
            near, far = (queries * keys).sum(1, keepdim=True), queries @ self.queue.clone().T
            rows = (torch.arange(len(keys)) + self.filled) % 64
            self.queue[rows] = keys
            self.filled = (self.filled + len(keys)) % 64
            first = torch.zeros(len(keys), dtype=torch.long)
            return functional.cross_entropy(torch.cat([near, far], 1) / 0.2, first)

    module = Contrasting()
    module.head = nn.Linear(32, 32)
    verdict = examine("overfit", module)
    assert (verdict.status, verdict.findings) == ("passed", [])
    assert "not judged: queue holds answers of earlier steps" in verdict.seen


def test_dropout_is_turned_off_and_named(examine, net):
    class Dropping(net):
        def __init__(self):
            super().__init__()
            self.drop, self.keep = nn.Dropout(0.9), nn.Dropout(0.0)

        def forward(self, inputs):
            return self.head(self.keep(self.drop(torch.relu(self.first(inputs)))))

    verdict = examine("overfit", Dropping())
    assert verdict.status == "passed"
    assert "dropout in drop" in verdict.seen
    assert "keep" not in verdict.seen


def test_dropout_that_no_module_does_is_turned_off_and_named(examine, net):
    class Dropped(net):
        def forward(self, inputs):
            return self.head(functional.dropout(self.first(inputs).relu(), 0.9, self.training))

    verdict = examine("overfit", Dropped())
    assert verdict.status == "passed"
    assert "dropout in " in verdict.seen
    assert f"{Path(__file__).name}:" in verdict.seen


@pytest.mark.parametrize("by", ["module", "function"])
def test_what_dropout_is_given_may_be_changed_in_place(examine, net, by):
    class Changing(net):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.1)

        def forward(self, inputs):
            hidden = self.first(inputs)
            dropped = self.drop(hidden) if by == "module" else functional.dropout(hidden, 0.1, self.training)
            squared = dropped**2  # keeps what it is given for the backward pass
            hidden += 1.0
            return self.head(squared + hidden)

    assert examine("overfit", Changing()).status == "passed"


@pytest.mark.parametrize("interval", ["epoch", "step"])
def test_schedule_plays_no_part(examine, net, interval):
    """Whether it fits the run is asked by `learning`."""

    class Decaying(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
            return [optimizer], [{"scheduler": schedule, "interval": interval}]

    verdict = examine("overfit", Decaying())
    assert verdict.status == "passed"
    assert "schedule (held at 0.01)" in verdict.seen


def test_batch_is_repeated_where_a_schedule_asks_for_the_number_of_steps(examine, net):
    """Which has Lightning make the loaders before training starts."""

    class Asking(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, self.trainer.estimated_stepping_batches)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    fitted = []
    examine("overfit", Asking(), more=[LambdaCallback(on_train_batch_end=lambda *given: fitted.append(given[3][0]))])
    assert len(fitted) > 1
    assert all(batch.equal(fitted[0]) for batch in fitted)


def test_training_that_the_project_ends_too_early_proves_nothing(examine, net):
    verdict = examine("overfit", net(), max_steps=3)
    assert verdict.status == "skipped"
    assert "after 3 steps, with which the project's own training has ended" in verdict.skipped


def test_schedule_that_waits_for_validation_waits_in_vain(examine, net):
    class Waiting(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val/loss"}}

    assert examine("overfit", Waiting()).status == "passed"


def test_long_warm_up_is_no_low_learning_rate(examine, net):
    class Warming(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 5000))
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    assert examine("overfit", Warming()).status == "passed"


def test_warm_up_of_a_schedule_that_cannot_be_copied_is_no_low_learning_rate(examine, net):
    class Around(torch.optim.lr_scheduler.LRScheduler):
        def __init__(self, inner):
            self.inner = inner

        def step(self, epoch=None):
            self.inner.step()

        def __getattr__(self, name):
            return getattr(self.inner, name)

    class Warming(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            warm = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-6, 1.0, 5000)
            return [optimizer], [{"scheduler": Around(warm), "interval": "step"}]

    assert examine("overfit", Warming()).status == "passed"


class Placed(examples.Small):
    """Every unit of its layer is dead, by where the numbers of the layer's weight stand, not by what they are."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.first.weight.copy_(torch.tensor([-9.0] + 7 * [0.5]).expand(16, 8))

    def forward(self, inputs):
        return super().forward(inputs.abs() + torch.tensor([5.0] + 7 * [0.0]))


class Cold(Placed):
    """The same by the numbers themselves."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.first.weight.fill_(-9.0)


@pytest.mark.parametrize(("kind", "failed"), [(Placed, False), (Cold, True)])
def test_one_start_by_chance_is_not_held_against_a_network(kind, failed):
    example = examples.trained_with(lambda weights: torch.optim.Adam(weights, lr=0.01), kind, {"max_steps": 300})
    ran = examples.run(probes.load("overfit/unexplained"), example)
    assert bool(ran.findings) is failed
    assert ("from another start" in str(ran.unjudged)) is not failed


def test_label_smoothing_is_no_failure_to_learn(examine, net):
    class Smoothing(net):
        def __init__(self):
            super().__init__()
            self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

        def loss(self, batch):
            return self.criterion(self(batch[0]), batch[1])

    assert examine("overfit", Smoothing()).status == "passed"


def test_inputs_that_training_step_augments_are_memorised_as_they_were_drawn_first(examine, net):
    class Moved(net):
        def training_step(self, batch, batch_idx):
            return self.loss([batch[0] + 4 * torch.randn_like(batch[0]), batch[1]])

    verdict = examine("overfit", Moved())
    assert verdict.status == "passed"
    assert "with the same random numbers in every step it is memorised" in verdict.seen


@pytest.mark.parametrize("learns", [True, False])
def test_labels_that_a_mask_leaves_out_need_not_be_known(examine, net, data, learns):
    """A task that not every sample has a label of: 0 stands for none, and its value is multiplied by 0."""

    class Masked(net):
        def training_step(self, batch, batch_idx):
            inputs, labels, known = batch
            logits = self(inputs if learns else torch.zeros_like(inputs))
            values = functional.cross_entropy(logits, labels, reduction="none")
            return (values * known).sum() / known.sum()

    class Known(data):
        def train_dataloader(self):
            inputs, labels = self.part(1).tensors
            known = torch.arange(len(labels)) % 3 > 0
            return DataLoader(TensorDataset(inputs, labels * known, known), 16, shuffle=True)

    verdict = examine("overfit", Masked(), Known())
    assert (verdict.status == "passed") == learns
    assert (verdict.facts["accuracy"] == 1) == learns


@pytest.mark.parametrize("accumulated", [1, 4])
def test_steps_are_counted_in_steps_of_the_optimizer(examine, net, accumulated):
    verdict = examine("overfit", net(), accumulate_grad_batches=accumulated)
    assert verdict.status == "passed"
    assert verdict.facts["steps"] < 100


def test_usual_weight_decay_is_no_failure_to_learn(examine, net):
    class Decaying(net):
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.1)

    assert examine("overfit", Decaying()).status == "passed"


def test_teacher_that_is_never_sure_keeps_no_right_answer_from_being_enough(examine, net):
    class Distilled(net):
        def loss(self, batch):
            inputs, labels = batch
            logits = self(inputs)
            soft = 0.7 * functional.one_hot(labels, 4) + 0.3 / 4
            return functional.cross_entropy(logits, labels) + 3 * functional.kl_div(
                functional.log_softmax(logits, dim=1), soft, reduction="batchmean"
            )

    verdict = examine("overfit", Distilled())
    assert verdict.status == "passed"
    assert verdict.facts["last_loss"] > 0.05


def test_classification_that_is_no_part_of_the_loss_need_not_be_learnt(examine, net):
    class Copied(net):
        def loss(self, batch):
            inputs, labels = batch
            logits = self(inputs)
            self.log("as_if_a_classifier", functional.cross_entropy(logits, labels))
            return functional.mse_loss(logits, torch.zeros_like(logits) + inputs[:, :1])

    verdict = examine("overfit", Copied())
    assert verdict.status == "passed"
    assert verdict.facts["accuracy"] is None


def test_bounded_logits_are_never_as_sure_as_the_criterion_wants(examine, net):
    class Bounded(net):
        def forward(self, inputs):
            return super().forward(inputs).tanh()

    [finding] = examine("overfit", Bounded()).findings
    assert finding.rule == "overfit/above-least-loss"


def test_extra_state_of_a_module_is_its_own_affair(examine, net):
    class Counting(net):
        def get_extra_state(self):
            return {"calls": 1}

        def set_extra_state(self, state):
            pass

    assert examine("overfit", Counting()).status == "passed"


class Pairs(LightningModule):
    """Users beside items; each user is to find its own item among those of the batch."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(64, 8), nn.Embedding(64, 8)

    def training_step(self, batch):
        users, items = batch
        scores = self.users(users) @ self.items(items).T
        return functional.cross_entropy(scores, torch.arange(len(users)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Couples(LightningDataModule):
    def train_dataloader(self):
        users = torch.tensor([*range(12), 0, 1, 2, 3])
        return DataLoader(TensorDataset(users, torch.arange(16)), 16)


@pytest.mark.parametrize("mixed", [False, True])
def test_user_that_comes_twice_cannot_have_two_answers(examine, mixed):
    class Mixed(Pairs):
        def training_step(self, batch):
            return super().training_step((batch[0], torch.zeros_like(batch[1])))

    verdict = examine("overfit", Mixed() if mixed else Pairs(), Couples())
    assert verdict.status == ("failed" if mixed else "passed")
    assert ("12 of 16 samples that repeat no id" in verdict.seen) == (not mixed)


class Regression(LightningModule):
    """Eight numbers to be given back; nothing in it is a class."""

    def __init__(self, lr=0.01, offset=0.0):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.lr, self.offset = lr, offset

    def training_step(self, batch):
        return functional.mse_loss(self.layer(batch[0]), batch[0]) + self.offset

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class TestWithoutClasses:
    @pytest.mark.parametrize("offset", [0.0, -10.0])
    def test_loss_that_falls_is_enough(self, examine, offset):
        verdict = examine("overfit", Regression(offset=offset))
        assert (verdict.status, verdict.facts["accuracy"]) == ("passed", None)

    @pytest.mark.parametrize("lr", [1e-7, 1e4])
    def test_learning_rate_is_named_by_the_trial_that_learns(self, examine, lr):
        [finding] = examine("overfit", Regression(lr=lr)).findings
        assert finding.rule == "overfit/setting-in-the-way"
        assert finding.place.key == "optimizer.lr"
        assert ("too low" if lr < 1 else "too high") in finding.why

    @pytest.mark.parametrize("offset", [0.0, 15.0])
    @pytest.mark.parametrize("by_hand", [False, True])
    def test_network_that_is_fed_zeros_does_not_pass_by_learning_the_mean(self, examine, by_hand, offset):
        class Blind(Regression):
            def training_step(self, batch):
                answers, wanted = self.layer(0 * batch[0]), batch[0] + offset
                return (answers - wanted).abs().mean() if by_hand else functional.mse_loss(answers, wanted)

        [finding] = examine("overfit", Blind()).findings
        assert finding.rule == "overfit/unexplained"
        assert "targets of other samples fit the answers as well" in finding.what

    def test_mean_that_is_far_away_is_no_finding_while_the_loss_falls_towards_it(self, examine):
        class FarAway(Regression):
            def training_step(self, batch):
                return functional.mse_loss(self.layer(batch[0]), batch[0] + 15)

        verdict = examine("overfit", FarAway(lr=1e-3))
        assert verdict.findings == []
        assert "not below one answer for all samples yet" in verdict.unjudged["overfit/unexplained"]

    def test_latent_that_is_drawn_and_carries_next_to_nothing_yet_is_not_judged(self, examine):
        class Latent(Regression):
            def training_step(self, batch):
                mean = self.layer(batch[0])
                answers = 0.5 * (mean + torch.randn_like(mean))
                return functional.mse_loss(answers, batch[0]) + 8 * mean.square().mean()

        verdict = examine("overfit", Latent())
        assert verdict.findings == []
        assert "such as a latent" in verdict.unjudged["overfit/unexplained"]

    def test_loss_of_what_the_network_draws_itself_is_not_judged(self, examine):
        class Policy(Regression):
            def training_step(self, batch):
                chosen = torch.distributions.Categorical(logits=self.layer(batch[0]))
                actions = chosen.sample()
                return -(chosen.log_prob(actions) * ((actions == 0).float() - 0.5)).mean()

        for item in ("overfit", "learning"):
            verdict = examine(item, Policy(), max_epochs=2)
            assert verdict.findings == []

    def test_loss_that_cannot_fall_is_not_judged(self, examine):
        """At its least value from the start, and no change that is tried alters that."""

        class Contrast(Regression):
            def training_step(self, batch):
                return functional.softplus(self.layer(batch[0]) * 0).mean()

        verdict = examine("overfit", Contrast())
        assert verdict.findings == []
        assert "it is not known how far it should" in verdict.unjudged["overfit/unexplained"]

    def test_several_optimizers_are_not_judged(self, examine):
        class Adversaries(Regression):
            automatic_optimization = False

            def training_step(self, batch):
                return None

            def configure_optimizers(self):
                return [super(Adversaries, self).configure_optimizers() for _ in range(2)]

        verdict = examine("overfit", Adversaries())
        assert verdict.status == "skipped"
        assert "several optimizers" in verdict.skipped

    @pytest.mark.parametrize(("lr", "status"), [(0.01, "passed"), (1e-7, "failed")])
    def test_one_optimizer_stepped_by_hand(self, examine, lr, status):
        class ByHand(Regression):
            def __init__(self):
                super().__init__(lr)
                self.automatic_optimization = False

            def training_step(self, batch):
                optimizer = self.optimizers()
                loss = functional.mse_loss(self.layer(batch[0]), batch[0])
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
                return loss

        assert examine("overfit", ByHand()).status == status

    def test_schedule_stepped_by_hand_may_end_with_the_project_s_own_training(self, examine):
        class ByHand(Regression):
            automatic_optimization = False

            def training_step(self, batch):
                loss = functional.mse_loss(self.layer(batch[0]), batch[0])
                self.optimizers().zero_grad()
                self.manual_backward(loss)
                self.optimizers().step()
                self.lr_schedulers().step()
                return loss

            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=8)]

        assert examine("overfit", ByHand(0.01)).status == "passed"


class TestFault:
    """What keeps a network from memorising, and the place that the verdict names."""

    def judge(self, examine, module, data=None, **trainer):
        verdict = examine("overfit", module, data, **trainer)
        assert verdict.status == "failed"
        [finding] = verdict.findings
        return finding

    def test_weight_decay_that_is_too_strong(self, examine, net):
        class Decaying(net):
            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=self.lr, weight_decay=0.1)

        finding = self.judge(examine, Decaying())
        assert finding.where == "optimizer.weight_decay=0.1"
        assert "could not be memorised" in finding.what
        assert "; without weight decay: " in finding.what

    @pytest.mark.parametrize(
        ("options", "what", "status"),
        [
            ({"label_smoothing": 1.0}, "cross_entropy(label_smoothing=1) asks nothing of 16 of 16", "failed"),
            (
                {"ignore_index": 0},
                "cross_entropy(ignore_index=0) asks nothing of 3 of 16 samples, of class 0",
                "warning",
            ),
            ({"weight": torch.tensor([1.0, 0.0, 0.0, 0.0])}, "of class 1, 2, 3", "warning"),
        ],
    )
    def test_criterion_that_asks_nothing_of_some_samples(self, examine, net, options, what, status):
        class Hopeless(net):
            def __init__(self):
                super().__init__()
                self.criterion = nn.CrossEntropyLoss(**options)

            def loss(self, batch):
                return self.criterion(self(batch[0]), batch[1])

        verdict = examine("overfit", Hopeless())
        [finding] = verdict.findings
        assert (verdict.status, finding.rule) == (status, "overfit/samples-without-effect")
        assert what in finding.what
        assert finding.place.module == "criterion (CrossEntropyLoss)"

    def test_detached_loss(self, examine, net):
        class Detached(net):
            def loss(self, batch):
                return super().loss(batch).detach().requires_grad_()

        finding = self.judge(examine, Detached())
        assert (finding.rule, finding.symptom, finding.fix.items) == ("overfit/unexplained", True, ("gradients",))
        assert "detached" in finding.why

    def test_optimizer_that_never_steps(self, examine, net):
        class Still(net):
            def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
                optimizer_closure()

        finding = self.judge(examine, Still())
        assert finding.rule == "overfit/around-the-steps"
        assert finding.place.function.endswith("Still.optimizer_step")

    def test_gradients_that_are_zeroed_before_the_step_are_no_learning_rate(self, examine, net):
        class Zeroing(net):
            def on_before_optimizer_step(self, optimizer):
                optimizer.zero_grad()

        finding = self.judge(examine, Zeroing())
        assert finding.rule == "overfit/around-the-steps"
        assert "not one weight changed" in finding.what
        assert finding.place.function.endswith("Zeroing.on_before_optimizer_step")

    def test_weights_that_are_drawn_anew_between_steps(self, examine, net):
        class Forgetful(net):
            def on_train_batch_start(self, batch, batch_idx):
                torch.nn.init.normal_(self.head.weight)

        finding = self.judge(examine, Forgetful())
        assert finding.rule == "overfit/around-the-steps"
        assert finding.place.function.endswith("Forgetful.on_train_batch_start")

    def test_labels_that_are_drawn_anew_in_every_step(self, examine, net):
        class Random(net):
            def training_step(self, batch, batch_idx):
                return self.loss([batch[0], batch[1][torch.randperm(len(batch[1]))]])

        finding = self.judge(examine, Random())
        assert finding.rule == "overfit/random-loss"
        assert finding.place.function.endswith("Random.training_step")

    def test_optimizer_without_the_parameters(self, examine, net):
        class Forgotten(net):
            def configure_optimizers(self):
                return torch.optim.Adam([self.head.bias], lr=0.01)

        finding = self.judge(examine, Forgotten())
        assert finding.rule == "overfit/unexplained"
        assert finding.place.parameter == "first.weight, first.bias, head.weight"
        assert finding.fix.items == ("gradients",)

    def test_learning_rate_a_thousand_times_too_low(self, examine, net):
        finding = self.judge(examine, net(lr=1e-6))
        assert finding.where == "optimizer.lr=1e-06"
        assert "too low" in finding.why

    def test_learning_rate_far_too_high(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=10000)

        finding = self.judge(examine, Descending())
        assert finding.where == "optimizer.lr=1e+04"
        assert "too high" in finding.why

    def test_learning_rate_that_is_too_high_to_settle(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=10)

        finding = self.judge(examine, Descending())
        assert "it stalled" in finding.what
        assert finding.where == "optimizer.lr=10"
        assert "with optimizer.lr=1 instead of 10" in finding.what
        assert finding.fix.overrides == ("optimizer.lr=1",)

    def test_learning_rate_that_a_warm_up_makes_too_high(self, examine, net):
        class Rising(net):
            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=10000)
                schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, 1e-7 * 10**step))
                return [optimizer], [{"scheduler": schedule, "interval": "step"}]

        finding = self.judge(examine, Rising())
        assert finding.where == "optimizer.lr=5e+03"  # half of the peak
        assert "too high" in finding.why

    def test_gradients_that_are_clipped_away(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        finding = self.judge(examine, Descending(), gradient_clip_val=1e-6)
        assert finding.where == "trainer.gradient_clip_val=1e-06"

    def test_samples_that_are_all_the_same(self, examine, net, data):
        class Constant(data):
            def train_dataloader(self):
                return DataLoader(TensorDataset(torch.ones(16, 8), torch.arange(16) % 4), 16)

        finding = self.judge(examine, net(), Constant())
        assert (finding.rule, finding.symptom, finding.fix.items) == ("overfit/unexplained", True, ("limit_batches",))
        assert finding.where == "train_dataloader, batch 0"

    def test_what_is_restored_from_itself_is_not_tried_with_zeros(self, examine, net):
        class Alike(net):
            def __init__(self):
                super().__init__()
                self.answer = torch.nn.Parameter(torch.zeros(8))

            def training_step(self, batch, batch_idx):
                bottleneck = 1e-3 * self(batch[0]).sum(1, keepdim=True).tanh()
                return functional.mse_loss(self.answer + bottleneck, batch[0])

        finding = self.judge(examine, Alike())
        assert finding.rule == "overfit/unexplained"
        assert "targets of other samples fit" in finding.what
        assert "zeros" not in finding.why


class Giving(examples.Small):
    """A regression."""

    def loss(self, answers, labels):
        return functional.mse_loss(answers, functional.one_hot(labels, 4).float())


def memorising(rate, module=examples.Small, **item):
    """Run the item on one batch with SGD, and ask whether another rate does better."""
    example = examples.trained_with(lambda weights: torch.optim.SGD(weights, lr=rate), module)
    return examples.run(probes.load("overfit/setting-in-the-way"), replace(example, item={**example.item, **item}))


@pytest.mark.parametrize(
    ("rate", "nearly", "memorised"), [(0.2, 0.1, False), (0.2, 0.2, True), (0.22, 0.1, True), (0.22, 0.05, False)]
)
def test_share_of_the_loss_that_may_be_left_where_every_answer_is_right(rate, nearly, memorised, monkeypatch):
    """A tenth, on either side of which these two are where no copy goes on."""
    monkeypatch.setattr(one_batch, "FURTHER", 0)
    assert memorising(rate, nearly=nearly).batch.memorised == memorised


def test_rate_that_is_only_slow_is_none_in_the_way(monkeypatch):
    monkeypatch.setattr(one_batch, "FURTHER", 0)
    assert [len(memorising(rate, nearly=0).findings) for rate in (0.2, 0.02)] == [0, 1]


def test_batch_that_is_memorised_soon_after_the_last_step_is_memorised():
    item = memorising(0.2)
    assert not item.findings
    assert re.search(r"it comes down steadily, and is memorised \d+ steps later", item.seen)


def test_loss_that_comes_down_steadily_is_not_judged_where_time_is_over(monkeypatch):
    before = iter([0.0])  # for the trial that comes first
    monkeypatch.setattr(one_batch_trials, "time", SimpleNamespace(monotonic=lambda: next(before, math.inf)))
    found = memorising(0.2)
    assert not found.findings
    assert "comes down" in found.unjudged["overfit/setting-in-the-way"]


@pytest.mark.parametrize(
    ("rate", "least_gain", "steps"), [(0.002, 0.01, 40), (0.002, 0.03, 20), (0.0009, 0.01, 20), (0.0009, 0.003, 40)]
)
def test_share_by_which_a_loss_is_a_new_best(rate, least_gain, steps):
    """With patience for 20 steps, of 40: the first rate gains two hundredths in them, and the second half of one."""
    assert memorising(rate, least_gain=least_gain).batch.steps - steps in (0, 1)


def test_regression_ends_when_all_of_its_last_losses_have_halved():
    as_given, sooner, later = (
        memorising(0.1, Giving, **item).batch for item in ({}, {"settled": 1}, {"learnt": 0.45, "settled": 10})
    )
    assert as_given.steps - sooner.steps == 9  # of a loss that falls in each step
    assert max(as_given.shares[-10:]) <= 0.5 < as_given.shares[-11]
    assert later.steps != as_given.steps


def test_batch_whose_equal_inputs_have_several_targets_is_not_to_be_memorised(examine, net, data):
    class Beginnings(data):
        """A quarter of all samples is the position that games begin with."""

        def part(self, seed):
            inputs, labels = super().part(seed).tensors
            begins = torch.arange(len(labels)) % 4 == 0
            moves = torch.arange(len(labels)) // 4 % 4
            return TensorDataset(torch.where(begins[:, None], 0, inputs), torch.where(begins, moves, labels))

    verdict = examine("overfit", net(), Beginnings())
    assert verdict.status != "failed"
    assert "the same inputs and other targets" in verdict.unjudged["overfit/unexplained"]


@pytest.mark.parametrize("classifies", [True, False])
def test_batch_of_more_samples_than_a_linear_network_has_weights_for_is_not_to_be_memorised(examine, net, classifies):
    torch.manual_seed(0)
    inputs, noise = torch.randn(512, 5), torch.randn(512, 1)
    targets = (noise[:, 0] > 0).long() if classifies else 0.1 * inputs[:, :1] + noise

    class Linear(net):
        def __init__(self):
            super().__init__()
            self.first, self.head = None, nn.Linear(5, 2 if classifies else 1)
            nn.init.zeros_(self.head.weight)

        def training_step(self, batch, batch_idx):
            loss = functional.cross_entropy if classifies else functional.mse_loss
            return loss(self.head(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.05)

    class Noisy(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(TensorDataset(inputs, targets), 512)

    verdict = examine("overfit", Linear(), Noisy())
    assert verdict.status == "passed"
    assert "weights that train are too few" in verdict.unjudged["overfit/unexplained"]
