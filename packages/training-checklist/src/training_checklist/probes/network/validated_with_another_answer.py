import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    CriterionCall,
    Example,
    Small,
    Step,
    called_once,
    isolate_rng,
    leaves,
    leaves_modes_alone,
    replaced,
    same,
    seed_all,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe

ROUNDING = 1e-3  # relative: of the same layers in the same mode, run twice


def detect(step: Step, limits: Limits) -> Hits:
    """Run training_step in eval mode on the batch that is validated: its answers are to be those of validation."""
    leaves_modes_alone(step.pl_module)
    first = trained(step, step.batch)
    with isolate_rng():
        seed_all(1)  # any: other random numbers than before
        again = trained(step, step.batch)
    validated = by_criterion(step.criteria.calls)
    for name in [name for name in validated if name in first and name in again]:
        now, then = validated[name], first[name]
        place = next((path for path, leaf in leaves(step.batch).items() if leaf.ndim and same(then.target, leaf)), None)
        if place is None or not same(now.target, then.target) or now.input.shape != then.input.shape:
            continue
        if differ(then.input, again[name].input):
            raise CannotJudge("the answers of training_step are drawn at random")
        shown = trained(step, replaced(step.batch, {place: leaves(step.batch)[place].roll(1, 0)}))
        if name not in shown or differ(then.input, shown[name].input):
            raise CannotJudge("the network is shown the targets in training, as by teacher forcing")
        squashed = now.input.sigmoid(), now.input.softmax(1), then.input.sigmoid(), then.input.softmax(1)
        is_squashed = any(not differ(one, other) for one in squashed for other in (now.input, then.input))
        clamped = then.input.clamp(now.input.min(), now.input.max())  # to the range of pixels, say
        added = (then.input - now.input).detach()  # the same to each sample, as the frequency of classes
        if (
            differ(now.input, then.input)
            and differ(now.input, clamped)
            and not is_squashed
            and (len(added) < 2 or differ(added, added[:1].expand_as(added)))
        ):  # which network/probabilities-into-... tells
            yield Hit(f"{name} gets other answers in {step.name} than in training_step, for the same batch", now.place)


def trained(step: Step, batch: object) -> dict[str, CriterionCall]:
    return by_criterion(step.again(batch, training=False, name="training_step").learned)


def by_criterion(calls: list[CriterionCall]) -> dict[str, CriterionCall]:
    """Return the calls by their criterion; not where it is called twice, or answers are not a batch of numbers."""
    return {call.name: call.detached for call in called_once(calls) if call.input.ndim > 1}


def differ(one: Tensor, other: Tensor) -> bool:
    return float((one - other).detach().norm()) > ROUNDING * float(other.detach().norm())


class Restoring(Small):
    """Takes its answer from what it is given, which is noisy."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 8)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(batch[0] - self(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx))


class Adjusted(Restoring):
    """Adds the same to all answers in training, as the logarithm of how frequent classes are (Menon et al. 2021)."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch[0]) + torch.arange(8), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", functional.mse_loss(self(batch[0]), batch[1]))


class Forgotten(Restoring):
    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", functional.mse_loss(self(batch[0]), batch[1]))


class Clamped(Restoring):
    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", functional.mse_loss((batch[0] - self(batch[0])).clamp(0, 1), batch[1]))


def pairs() -> DataLoader:
    clean = torch.randn(32, 8)
    return DataLoader(TensorDataset(clean + 0.1 * torch.randn(32, 8), clean), batch_size=16)


PROBE = Probe(
    question="Does validation_step give a criterion the same outputs as training_step does, for one batch?",
    why="the two losses are of different outputs, so that neither overfitting nor the best epoch shows in them; a "
    "decoder that is validated on its own earlier tokens is meant so",
    severity=WARNING,
    may_be_wrong="an averaged copy of the weights, or an inference path of its own, is validated on purpose",
    fix=Fix("compute the outputs in one method that both steps call"),
    steps=("validation_step",),
    detect=detect,
    faulty=Example(Forgotten, pairs),
    healthy=Example(Restoring, pairs),
    also_healthy=(Example(Clamped, pairs), Example(Adjusted, pairs)),
)
