import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import CriterionCall, Example, Small, Step, leaves, same
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    trained = step.again(step.batch, name="training_step")
    of_training = targets(trained, trained.learned)
    found = targets(step, step.criteria.calls)
    if not of_training or not found:
        raise CannotJudge("one of the two steps compares with no part of the batch as it is")
    for name, (leaf, call) in found.items():
        expected = of_training.get(name, (leaf, call))[0]
        if leaf != expected:
            what = f"{step.name} compares with {leaf}, and training_step with {expected}: {name} of the same batch"
            yield Hit(what, call.place)


def targets(step: Step, calls: list[CriterionCall]) -> dict[str, tuple[str, CriterionCall]]:
    """Return the place in the batch of each criterion's target, by the criterion; not where it is called twice."""
    known = leaves(step.batch)
    found = [(call, next((path for path, leaf in known.items() if is_of(call.target, leaf)), "")) for call in calls]
    names = [call.name for call in calls]
    return {call.name: (path, call) for call, path in found if path and names.count(call.name) == 1}


def is_of(target: Tensor, leaf: Tensor) -> bool:
    return target.numel() > 1 and same(target, leaf)


class Restoring(Small):
    """Gives back 8 numbers of which it sees noisy ones."""

    target = 1

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 8)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", functional.mse_loss(self(batch[0]), batch[self.target]))


class ValidatedWithInputs(Restoring):
    target = 0


def pairs() -> DataLoader:
    clean = torch.randn(32, 8)
    return DataLoader(TensorDataset(clean + 0.1 * torch.randn(32, 8), clean), batch_size=16)


PROBE = Probe(
    question="Does validation_step give a criterion the same part of the batch as its target as training_step does?",
    why="the two losses say different things, so that neither overfitting nor the best epoch can be seen in them",
    fix=Fix("compare with the same part of the batch in both steps, best in one method that both call"),
    steps=("validation_step",),
    detect=detect,
    faulty=Example(ValidatedWithInputs, pairs),
    healthy=Example(Restoring, pairs),
)
