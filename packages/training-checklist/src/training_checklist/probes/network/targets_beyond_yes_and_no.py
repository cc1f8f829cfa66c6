import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Small, Step, StepListener, leaves, same, slopes
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


class Targets(StepListener):
    """Sees, before backward, which targets of binary cross-entropies the loss counts.

    Attributes:
        hits: of the targets beyond 0 and 1 among them; None while there was no such criterion.
    """

    hits: list[Hit] | None = None

    def before_backward(self, loss: Tensor) -> None:
        calls = [call for call in self.step.learned if call.name.startswith("binary_cross_entropy")]
        calls = [call for call in calls if call.input.requires_grad]
        self.hits = self.hits if not calls else self.hits or []
        # Labels that a step draws for an adversary may lie beyond, lest it becomes too sure: 0.7 to 1.2 for yes.
        if len(self.step.trainer.optimizers) > 1:
            batch = leaves(self.step.batch).values()
            calls = [call for call in calls if any(same(call.target, leaf) for leaf in batch)]
        for call, slope in zip(calls, slopes(loss, [call.input for call in calls]), strict=True):
            target = call.target.detach()
            counted = torch.zeros_like(target, dtype=torch.bool) if slope is None else slope != 0
            beyond = int((((target < 0) | (target > 1)) & counted).sum())
            if beyond:
                low, high = (float(each) for each in target.aminmax())
                self.hits.append(
                    Hit(
                        f"binary cross-entropy counts {beyond} of {target.numel()} targets that lie outside of 0 to 1: "
                        f"they go from {low:g} to {high:g}",
                        call.place,
                    )
                )


def detect(step: Step, limits: Limits) -> Hits:
    hits = step.heard().hits
    if hits is None:
        raise CannotJudge("no loss is made of a binary cross-entropy")
    yield from hits


def loss(answers: Tensor, labels: Tensor, masked: bool) -> Tensor:
    """Return that of labels of which -1 stands for unknown."""
    targets = functional.one_hot(labels, 4).float()
    targets[:, 0] = -1.0
    weight = (targets >= 0).float() if masked else None
    return functional.binary_cross_entropy_with_logits(answers, targets, weight)


class Critic(Small):
    """Tells samples from others by noisy labels, beside what would have to deceive it."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(answers, 0.7 + 0.5 * torch.rand_like(answers))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.manual_backward(super().training_step(batch, batch_idx))
        self.optimizers()[0].step()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(part.parameters(), lr=0.01) for part in (self.first, self.head)]


PROBE = Probe(
    question="Are all targets of the binary cross-entropy between 0 and 1, but for those that are masked out?",
    why="beyond 0 and 1 the loss has no least value: a code for a missing or uncertain label pulls a logit without end",
    fix=Fix("map the code to a number between 0 and 1, or give it a weight of 0; divide labels of 0 and 255 by 255"),
    listener=Targets,
    detect=detect,
    faulty=lambda answers, labels: loss(answers, labels, masked=False),
    healthy=lambda answers, labels: loss(answers, labels, masked=True),
    also_healthy=(Critic,),
)
