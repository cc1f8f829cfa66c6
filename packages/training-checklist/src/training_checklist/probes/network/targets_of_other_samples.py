import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    ROUNDING,
    SAMPLES,
    Example,
    Small,
    Step,
    answered,
    batch_size,
    first_of,
    leaves,
    look,
    replaced,
    scores,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


@torch.no_grad()
def detect(step: Step, limits: Limits) -> Hits:
    """Give the second sample what the first one has, and see which answers and targets of the criterion change.

    In eval mode, in which no answer depends on other samples.
    """
    some, looked = first_of(step.batch, SAMPLES), look(step)
    known = answered(looked, some)[1] if batch_size(some) is not None else None
    if known is None:
        raise CannotJudge("not exactly one cross_entropy or nll_loss compares answers with class indices")
    answers = torch.zeros(known.target.numel(), dtype=torch.bool)
    targets = answers.clone()
    for path, leaf in leaves(some).items():
        if not leaf.ndim or len(leaf) < 2 or torch.equal(leaf[1], leaf[0]):
            continue
        other = leaf.clone()
        other[1] = leaf[0]
        call = answered(looked, replaced(some, {path: other}))[1]
        if call is None or call.input.shape != known.input.shape or call.target.shape != known.target.shape:
            continue
        change = (scores(call) - scores(known)).abs().amax(-1)
        answers |= (change > ROUNDING * scores(known).abs().amax()).cpu()
        targets |= (call.target != known.target).flatten().cpu()
    if not answers.any() or not targets.any():
        raise CannotJudge("no change of a sample changes answers and targets of the criterion")
    both, number = int((targets & answers).sum()), int(targets.sum())
    if both < limits.own_targets * number:
        yield Hit(
            f"where one sample changes, {number} targets of the criterion do, of which {both} are "
            f"compared with answers to that sample ({int(answers.sum())} of these)",
            known.place,
        )


class Tagger(Small):
    """Gives each of 5 numbers of a sample a class; only the first `own` targets are those of its own sample."""

    def __init__(self, own: int) -> None:
        super().__init__()
        self.first, self.own = nn.Linear(1, 16), own

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        mixed = torch.cat([labels[:, : self.own], labels.roll(1, 0)[:, self.own :]], 1)
        return functional.cross_entropy(answers.flatten(0, 1), mixed.flatten())


def loader() -> DataLoader:
    labels = (torch.arange(16)[:, None] + torch.arange(5)) % 4
    return DataLoader(TensorDataset(torch.randn(16, 5, 1), labels), batch_size=16)


PROBE = Probe(
    question="Is each output compared with the target of its own sample and position?",
    why="outputs and targets are flattened, transposed or sorted in different orders on their way to the criterion",
    fix=Fix("flatten both in one order: logits.flatten(0, 1) of (B, T, C) goes with labels.flatten() of (B, T)"),
    thresholds={
        "own_targets": Threshold(
            0.5,
            "share of a sample's targets that meet answers to it: all do as they should, and of a transpose the first "
            "and the last position only; half lies between",
            factor=1.4,
        )
    },
    detect=detect,
    faulty=Example(lambda: Tagger(own=2), loader),
    healthy=Example(lambda: Tagger(own=3), loader),
)
