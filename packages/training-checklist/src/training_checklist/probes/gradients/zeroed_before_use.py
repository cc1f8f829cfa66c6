import torch
from torch import Tensor

from training_checklist.instruments import FirstSteps, Small, several_steps
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    if len(steps.trainer.optimizers) > 1:
        raise CannotJudge("another optimizer's loss may leave gradients in these weights, which are zeroed on purpose")
    for each in steps.optimizers:
        # A step may be left out for a reason, such as a loss that is not finite; most of them for none.
        if 2 * each.discarded > each.backwards:
            yield Hit(
                f"the gradients of {each.discarded} of {each.backwards} backward passes are zeroed before any step has "
                "used them",
                steps.zeroing(),
            )


class Accumulating(Small):
    """Takes a step for every four batches."""

    zeroed_first = True

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        optimizer = self.optimizers()
        if self.zeroed_first or batch_idx % 4 == 0:
            optimizer.zero_grad()
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss / 4)
        if batch_idx % 4 == 3:
            optimizer.step()
        return loss


class Inner(Small):
    """Goes some steps by an optimizer that it makes itself, and takes a share of the way (Reptile)."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list, batch_idx: int) -> None:
        inner, before = torch.optim.SGD(self.parameters(), lr=0.05), [p.detach().clone() for p in self.parameters()]
        for _ in range(5):
            inner.zero_grad()
            self.manual_backward(super().training_step(batch, batch_idx))
            inner.step()
        for p, start in zip(self.parameters(), before, strict=True):
            p.grad = start - p.detach()
            p.data.copy_(start)
        self.optimizers().step()


PROBE = Probe(
    question="Does an optimizer step come between each backward and the next zero_grad?",
    why="what is to be accumulated over several batches is the last one's gradient alone",
    fix=Fix("optimizer.zero_grad() after optimizer.step(), and not before each backward pass"),
    detect=detect,
    faulty=several_steps(Accumulating),
    healthy=several_steps(type("ZeroedAfter", (Accumulating,), {"zeroed_first": False})),
    also_healthy=(several_steps(Inner),),
)
