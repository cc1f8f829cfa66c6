import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


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


def test_dropout_is_turned_off_and_named(examine, net):
    class Dropping(net):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.9)

        def forward(self, inputs):
            return self.head(self.drop(torch.relu(self.first(inputs))))

    verdict = examine("overfit", Dropping())
    assert verdict.status == "passed"
    assert "dropout in drop" in verdict.seen


def test_schedule_that_steps_by_epochs_does_not_end_it(examine, net):
    class Decaying(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)]

    assert examine("overfit", Decaying()).status == "passed"


def test_label_smoothing_is_no_failure_to_learn(examine, net):
    class Smoothing(net):
        def __init__(self):
            super().__init__()
            self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

        def loss(self, batch):
            return self.criterion(self(batch[0]), batch[1])

    assert examine("overfit", Smoothing()).status == "passed"


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


def test_extra_state_of_a_module_is_its_own_affair(examine, net):
    class Counting(net):
        def get_extra_state(self):
            return {"calls": 1}

        def set_extra_state(self, state):
            pass

    assert examine("overfit", Counting()).status == "passed"


class TestFault:
    """What keeps a network from memorising, and the place that the verdict names."""

    def judge(self, examine, module, data=None, **trainer):
        verdict = examine("overfit", module, data, **trainer)
        assert verdict.status == "failed"
        [finding] = verdict.findings
        assert "could not be memorised" in finding.what
        return finding

    def test_weight_decay_that_is_too_strong(self, examine, net):
        class Decaying(net):
            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=self.lr, weight_decay=0.1)

        finding = self.judge(examine, Decaying())
        assert finding.where == "optimizer.weight_decay=0.1"
        assert "without it the loss falls to" in finding.why

    @pytest.mark.parametrize(
        ("options", "where"),
        [
            ({"label_smoothing": 1.0}, "criterion.label_smoothing=1"),
            ({"ignore_index": 0}, "criterion.ignore_index=0"),
            ({"weight": torch.tensor([1.0, 0.0, 0.0, 0.0])}, "criterion.weight"),
        ],
    )
    def test_criterion_that_leaves_nothing_to_learn(self, examine, net, options, where):
        class Hopeless(net):
            def __init__(self):
                super().__init__()
                self.criterion = nn.CrossEntropyLoss(**options)

            def loss(self, batch):
                return self.criterion(self(batch[0]), batch[1])

        finding = self.judge(examine, Hopeless())
        assert finding.where == where

    def test_detached_loss(self, examine, net):
        class Detached(net):
            def loss(self, batch):
                return super().loss(batch).detach().requires_grad_()

        finding = self.judge(examine, Detached())
        assert finding.where == "training_step"
        assert "detached" in finding.why

    def test_optimizer_that_never_steps(self, examine, net):
        class Still(net):
            def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
                optimizer_closure()

        finding = self.judge(examine, Still())
        assert finding.where == "Still.optimizer_step"
        assert "no step of the optimizer is taken" in finding.why

    def test_weights_that_are_drawn_anew_between_steps(self, examine, net):
        class Forgetful(net):
            def on_train_batch_start(self, batch, batch_idx):
                torch.nn.init.normal_(self.head.weight)

        finding = self.judge(examine, Forgetful())
        assert finding.where == "Forgetful.on_train_batch_start"
        assert "not by the optimizer" in finding.why

    def test_labels_that_are_drawn_anew_in_every_step(self, examine, net):
        class Random(net):
            def training_step(self, batch, batch_idx):
                return self.loss([batch[0], batch[1][torch.randperm(len(batch[1]))]])

        finding = self.judge(examine, Random())
        assert finding.where == "Random.training_step"
        assert "it is random" in finding.why

    def test_optimizer_without_the_parameters(self, examine, net):
        class Forgotten(net):
            def configure_optimizers(self):
                return torch.optim.Adam([self.head.bias], lr=0.01)

        finding = self.judge(examine, Forgotten())
        assert finding.where == "configure_optimizers: first.weight, first.bias, head.weight"

    def test_learning_rate_a_thousand_times_too_low(self, examine, net):
        finding = self.judge(examine, net(lr=1e-6))
        assert finding.where == "optimizer.lr=1e-06"
        assert "too low" in finding.why

    def test_learning_rate_far_too_high(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=10000)

        finding = self.judge(examine, Descending())
        assert finding.where == "optimizer.lr=10000"
        assert "too high" in finding.why

    def test_learning_rate_that_is_too_high_to_settle(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=10)

        finding = self.judge(examine, Descending())
        assert "it stalled" in finding.what
        assert finding.where == "optimizer.lr=10"
        assert "a tenth of it leads to a loss of" in finding.why

    def test_learning_rate_that_a_warm_up_makes_too_high(self, examine, net):
        class Rising(net):
            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=10000)
                schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, 1e-7 * 10**step))
                return [optimizer], [{"scheduler": schedule, "interval": "step"}]

        finding = self.judge(examine, Rising())
        assert finding.where in ("optimizer.lr=100", "optimizer.lr=1000", "optimizer.lr=10000")
        assert "too high" in finding.why

    def test_schedule_that_steps_by_batches(self, examine, net):
        class Dying(net):
            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
                return [optimizer], [{"scheduler": schedule, "interval": "step"}]

        assert self.judge(examine, Dying()).where.startswith("lr_scheduler: learning rate 0.01 -> ")

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

        assert self.judge(examine, net(), Constant()).where == "train_dataloader, batch 0"
