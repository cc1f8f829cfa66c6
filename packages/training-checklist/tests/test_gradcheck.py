from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchmetrics import AveragePrecision
from torchmetrics.image import StructuralSimilarityIndexMeasure


class Square(torch.autograd.Function):
    """Right: d x² = 2x."""

    @staticmethod
    def forward(ctx, value, scale):
        ctx.save_for_backward(value, scale)
        return value**2 * scale

    @staticmethod
    def backward(ctx, gradient):
        value, scale = ctx.saved_tensors
        return 2 * value * scale * gradient, (value**2 * gradient).sum()


class HalfSquare(Square):
    @staticmethod
    def backward(ctx, gradient):
        value, scale = ctx.saved_tensors
        return value * scale * gradient, (value**2 * gradient).sum()


class ForgottenScale(Square):
    @staticmethod
    def backward(ctx, gradient):
        return Square.backward(ctx, gradient)[0], None


class Reversed(torch.autograd.Function):
    """Gradient reversal (Ganin and Lempitsky, 2015)."""

    @staticmethod
    def forward(ctx, value):
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Rounded(torch.autograd.Function):
    """Straight-through gradient (Bengio et al., 2013)."""

    @staticmethod
    def forward(ctx, value):
        return value.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Rectified(torch.autograd.Function):
    """A kink at 0, and in float32 inside."""

    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        return value.float().clamp_min(0).to(value.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0] > 0)


@pytest.fixture
def using(net):
    """`using(function)`: the healthy network with a function between its layers."""

    def make(function, *, zeros=False):
        class Using(net):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.tensor(0.5))

            def forward(self, inputs):
                hidden = self.first(inputs) * (0 if zeros else 1)
                more = (self.scale,) if issubclass(function, Square) else ()
                return self.head(function.apply(hidden, *more))

        return Using()

    return make


def with_loss(net, loss):
    class Own(net):
        def loss(self, batch):
            return loss(self(batch[0]), batch[1])

    return Own()


def test_criterion_and_right_function_agree(examine, using):
    verdict = examine("gradcheck", using(Square))
    assert verdict.status == "passed"
    assert verdict.seen == "criterion agrees for 16 outputs of Using; Square agrees"


@dataclass(frozen=True)
class Answers:
    logits: torch.Tensor


def test_answers_in_a_frozen_dataclass_are_checked(examine, net):
    class Framed(net):
        def forward(self, inputs):
            return Answers(super().forward(inputs))

        def loss(self, batch):
            return functional.cross_entropy(self(batch[0]).logits, batch[1])

    assert examine("gradcheck", Framed()).seen == "criterion agrees for 16 outputs of Framed"


def test_wrong_backward_is_named_with_input_and_factor(examine, using):
    [finding] = examine("gradcheck", using(HalfSquare)).findings
    assert "HalfSquare is not the slope of its forward for input value" in finding.what
    assert "(0.5 times it)" in finding.what
    assert (finding.rule, finding.place.function) == ("gradcheck/wrong-backward", "HalfSquare.backward")
    assert finding.place.file.endswith("test_gradcheck.py")


def test_wrong_backward_of_many_small_values_is_found(examine, net):
    class Wide(net):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 1024)
            self.head = nn.Linear(1024, 4)

        def forward(self, inputs):
            return self.head(HalfSquare.apply(0.05 * self.first(inputs), torch.tensor(1.0)))

    [finding] = examine("gradcheck", Wide()).findings
    assert "HalfSquare is not the slope of its forward for input value" in finding.what


def test_wrong_sign_is_told_from_gradient_reversal_where_nothing_is_cut_off(examine, net):
    class Negated(Rectified):
        @staticmethod
        def backward(ctx, gradient):
            return -gradient * (ctx.saved_tensors[0] > 0)

    class Positive(net):
        def forward(self, inputs):
            return self.head(Negated.apply(self.first(inputs).sigmoid()))

    [finding] = examine("gradcheck", Positive()).findings
    assert "Negated is not the slope of its forward" in finding.what


def test_input_whose_gradient_is_forgotten_is_named(examine, using):
    [finding] = examine("gradcheck", using(ForgottenScale)).findings
    assert "for input scale" in finding.what


def test_metric_in_a_loss_is_compared_in_float64(examine, net):
    """What torchmetrics adds up in float32 has no slope along a step of 1e-6."""

    class Restored(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 24 * 24)
            self.similarity = StructuralSimilarityIndexMeasure(data_range=1.0)

        def loss(self, batch):
            inputs, _ = batch
            clean = functional.interpolate(inputs[:, None, None], (24, 24))
            return 1 - self.similarity(self(inputs).view_as(clean), clean)

    verdict = examine("gradcheck", Restored())
    assert (verdict.status, verdict.unjudged.get("gradcheck/loss-not-its-slope")) == ("passed", None)


@pytest.mark.parametrize("function", [Reversed, Rounded, Rectified])
def test_gradients_that_are_meant_so_raise_no_alarm(examine, using, function):
    assert examine("gradcheck", using(function)).status == "passed"


def test_kink_that_every_input_lies_on_raises_no_alarm(examine, using):
    assert examine("gradcheck", using(Rectified, zeros=True)).status == "passed"


def test_part_of_the_loss_that_autograd_does_not_see_is_found(examine, net):
    def loss(logits, labels):
        return functional.cross_entropy(logits, labels) * float(logits.square().mean())

    verdict = examine("gradcheck", with_loss(net, loss))
    assert verdict.status == "failed"
    [finding] = verdict.findings
    assert (finding.rule, finding.place.note) == ("gradcheck/loss-not-its-slope", "between Own and the loss")


def of_two_tensors(net, part):
    """A network that answers with two tensors, of which the loss of the second is scaled by a part of itself."""

    class Two(net):
        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(8, 1)

        def forward(self, inputs):
            return {"logits": super().forward(inputs), "scale": self.scale(inputs).squeeze(1)}

        def loss(self, batch):
            answer = self(batch[0])
            return functional.cross_entropy(answer["logits"], batch[1]) + part(answer["scale"])

    return Two()


def test_each_of_several_tensors_that_the_network_answers_with_is_checked(examine, net):
    assert examine("gradcheck", of_two_tensors(net, lambda scale: scale.square().mean())).seen == (
        "criterion agrees for 20 outputs of Two"
    )
    [finding] = examine("gradcheck", of_two_tensors(net, lambda scale: (scale * scale.tolist()[0]).mean())).findings
    assert finding.rule == "gradcheck/loss-not-its-slope"
    assert "Two['scale']" in finding.what


def test_network_that_a_step_calls_twice_is_checked_call_by_call(examine, net):
    class Pair(net):
        def loss(self, batch):
            one, two = self(batch[0]), self(batch[0].flip(0))
            return (one - two).square().mean() + (two * float(two.square().mean())).mean()

    [finding] = examine("gradcheck", Pair()).findings
    assert "Pair in call 2 of 2" in finding.what


def test_answer_that_the_step_changes_in_place_is_checked(examine, net):
    def loss(logits, labels):
        logits[:, 0] = -1.0
        return functional.cross_entropy(logits, labels)

    assert examine("gradcheck", with_loss(net, loss)).seen == "criterion agrees for 16 outputs of Own"


def focal(logits, labels):
    each = functional.cross_entropy(logits, labels, reduction="none")
    return ((1 - torch.exp(-each.detach())) ** 2 * each).mean()


def largest_two(logits, labels):
    return functional.relu(1 - logits.topk(2).values).sum() + functional.cross_entropy(logits, labels)


def with_function(logits, labels):
    return functional.cross_entropy(logits, labels) + Square.apply(logits, torch.tensor(0.5)).mean()


def weighted(logits, labels):
    return functional.cross_entropy(logits, labels, weight=torch.ones(4))


@pytest.mark.parametrize("loss", [focal, largest_two, with_function])
def test_losses_with_stopped_gradients_and_kinks_pass(examine, net, loss):
    verdict = examine("gradcheck", with_loss(net, loss))
    assert verdict.status == "passed"
    assert verdict.seen.startswith("criterion agrees for 16 outputs of Own")


def test_loss_that_is_rounded_to_float32_is_checked_with_a_larger_step(examine, net):
    """As a target in float32 makes it: nothing is left of a small step."""
    loss = with_loss(net, lambda logits, labels: (1 + 0.005 * functional.cross_entropy(logits, labels)).float())
    assert examine("gradcheck", loss).seen == "criterion agrees for 16 outputs of Own"


def test_loss_that_cannot_be_float64_is_skipped_with_the_reason(examine, net):
    verdict = examine("gradcheck", with_loss(net, weighted))
    assert verdict.status == "skipped"
    assert "criterion not checked: training_step in float64 raises RuntimeError" in verdict.skipped


def test_metric_that_counts_distinct_scores_in_the_step_leaves_the_loss_to_be_checked(examine, net):
    class Ranking(net):
        def __init__(self):
            super().__init__()
            self.precision = AveragePrecision(task="multiclass", num_classes=4)

        def loss(self, batch):
            answers = self(batch[0])
            self.precision(answers, batch[1])
            return functional.cross_entropy(answers, batch[1])

    verdict = examine("gradcheck", Ranking())
    assert verdict.status == "passed", verdict
    assert "criterion agrees" in verdict.seen


def test_step_that_passes_by_hooks_is_skipped_with_the_reason(examine, net):
    class Direct(net):
        def loss(self, batch):
            return functional.cross_entropy(self.head.forward(self.first.forward(batch[0])), batch[1])

    verdict = examine("gradcheck", Direct())
    assert verdict.status == "skipped"
    assert "none as module(...)" in verdict.skipped


def test_step_that_takes_the_whole_batch_only_is_checked_with_it(examine, net):
    class Weighing(net):
        def loss(self, batch):
            each = functional.cross_entropy(self(batch[0]), batch[1], reduction="none")
            return (each * torch.linspace(0, 1, 16, dtype=each.dtype)).mean()

    assert examine("gradcheck", Weighing()).seen == "criterion agrees for 64 outputs of Weighing"


def test_encoder_beside_the_head_is_not_run_for_each_number(examine, net):
    class Views(net):
        def __init__(self):
            super().__init__()
            self.first = Counted(8, 32)

        def loss(self, batch):
            inputs, labels = batch
            Counted.steps += 1
            one, other = (self.head(torch.relu(self.first(each))) for each in (inputs, -inputs))
            return functional.cross_entropy(one, labels) + (one - other).square().mean()

    class Counted(nn.Linear):
        runs = steps = 0

        def forward(self, inputs):
            Counted.runs += 1
            return super().forward(inputs)

    assert examine("gradcheck", Views()).status == "passed"
    assert Counted.runs < 10 < Counted.steps


@pytest.mark.parametrize("is_seen", [True, False])
def test_network_that_answers_for_two_views_is_checked_with_both_answers(examine, net, is_seen):
    class TwoViews(net):
        def loss(self, batch):
            one, two = (functional.normalize(self(batch[0] + shift), dim=1) for shift in (0.0, 0.1))
            with torch.no_grad():
                self(batch[0])  # measured, and not learnt from
            loss = functional.cross_entropy(one @ two.T, torch.arange(len(one)))
            return loss if is_seen else loss * float(two.abs().sum())

    verdict = examine("gradcheck", TwoViews())
    if is_seen:
        assert (verdict.status, verdict.seen) == ("passed", "criterion agrees for 32 outputs of TwoViews")
    else:
        assert [finding.rule for finding in verdict.findings] == ["gradcheck/loss-not-its-slope"]


@pytest.mark.parametrize("is_seen", [True, False])
def test_criterion_of_log_probabilities_is_checked_among_probabilities_only(examine, net, is_seen):
    class Recogniser(net):
        def forward(self, inputs):
            return super().forward(inputs).log_softmax(dim=-1)

        def loss(self, batch):
            spoken = self(batch[0])[:, None].expand(-1, 3, -1).transpose(0, 1)  # (3, B, 4): the same sound three times
            lengths = torch.full_like(batch[1], 3)
            loss = functional.ctc_loss(spoken, batch[1].clamp_min(1)[:, None], lengths, torch.ones_like(lengths))
            return loss if is_seen else loss * float(spoken.square().mean())

    found = [finding.rule for finding in examine("gradcheck", Recogniser()).findings]
    assert found == ([] if is_seen else ["gradcheck/loss-not-its-slope"])


def test_weight_of_the_loss_that_each_step_sets_for_the_next_is_the_same_each_time(examine, net):
    class Adaptive(net):
        weight = 1.0

        def training_step(self, batch, batch_idx):
            loss = self.weight * self.loss(batch)
            self.weight = self.weight * 0.9
            return loss

    assert examine("gradcheck", Adaptive()).findings == []


def test_weights_and_buffers_are_left_as_they_were(examine, net):
    class Normed(net):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(32)

        def forward(self, inputs):
            return self.head(self.norm(self.first(inputs)))

        def training_step(self, batch, batch_idx):
            self.seen = getattr(self, "seen", [])
            self.seen.append((self.norm.running_mean.clone(), self.head.weight.detach().clone()))
            return super().training_step(batch, batch_idx)

    network = Normed()
    assert examine("gradcheck", network).status == "passed"
    (mean, weight), *_, (last_mean, last_weight) = network.seen
    assert torch.equal(mean, last_mean)
    assert torch.equal(weight, last_weight)
    assert last_weight.dtype == torch.float32
