from itertools import permutations

import torch
from torch import Tensor, nn

from training_checklist.instruments import FirstSteps, Small, counted, gather, several_steps, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = steps.after_first
    # Those that have taken steps: others may follow, as L-BFGS follows Adam.
    stepped = [{id(p) for p in each.parameters} for each in steps.optimizers]
    holders = {name: sum(id(p) in own for own in stepped) for name, p in known.trained.items()}
    if not steps.pl_module.automatic_optimization and have_own_parts(known.held):
        return
    for path, names in gather([name for name, count in holders.items() if count > 1], known.trained):
        yield Hit(
            f"{holders[names[0]]} optimizers hold {counted(names)} of {path}",
            steps.configured.beside(parameter=shown(names)),
        )


def have_own_parts(held: list[set[int]]) -> bool:
    """Whether each optimizer has weights of its own beside what it shares, as of two decoders of one encoder.

    A module that steps them in turn may mean that (Audibert et al. 2020); one that is given all weights by mistake has
    those of the others.
    """
    return all(one - other for one, other in permutations(held, 2))


class Two(Small):
    """A network with an optimizer for each of its layers."""

    also: tuple[str, ...] = ("head",)

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        self.zero_grad()
        return loss

    def further(self) -> list[nn.Module]:
        return []

    def configure_optimizers(self) -> list:
        parts = [[self.first, *map(self.get_submodule, self.also)], [self.head, *self.further()]]
        return [torch.optim.SGD([p for part in some for p in part.parameters()], lr=0.01) for some in parts]


class TwoDecoders(Two):
    """One layer for both optimizers, and one of its own for the second as well."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(8, 4)

    def further(self) -> list[nn.Module]:
        return [self.other]

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + self.other(inputs)


class OneAfterTheOther(Two):
    """Trains all weights by its first optimizer, and later by its second."""

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        optimizer = self.optimizers()[int(self.current_epoch > 100)]
        optimizer.zero_grad()
        loss = Small.training_step(self, batch, batch_idx)
        self.manual_backward(loss)
        optimizer.step()
        return loss


PROBE = Probe(
    question="Is every parameter held by one optimizer only?",
    why="each of them moves the weights by its own state, against the other",
    fix=Fix("give every parameter to one optimizer only"),
    detect=detect,
    faulty=several_steps(Two),
    healthy=several_steps(type("Apart", (Two,), {"also": ()})),
    also_healthy=(several_steps(TwoDecoders), several_steps(OneAfterTheOther)),
)
