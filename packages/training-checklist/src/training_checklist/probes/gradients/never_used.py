import torch

from training_checklist.instruments import FirstSteps, Small, of_function, several_steps
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    if len(steps.watched) < 2:
        raise CannotJudge("there is one optimizer: whether gradients are zeroed before a step is asked of it elsewhere")
    used = {id(p) for each in steps.watched if each.with_gradients for p in each.parameters}
    for index, each in enumerate(steps.watched):
        if used >= {id(p) for p in each.parameters}:  # by another one, which this one may follow, as L-BFGS does Adam
            continue
        if each.discarded and not each.with_gradients:
            taken = f"{len(each.effects)} steps without a gradient" if each.effects else "no step"
            yield Hit(
                f"optimizer {index} ({each.name}) takes {taken}, and what {each.discarded} backward passes made for "
                "its parameters is zeroed",
                of_function(type(steps.pl_module).training_step),
            )


class TwoLayers(Small):
    """Trains each of its layers with an optimizer of its own, the second on twice the loss."""

    order = (0, 1)

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list, batch_idx: int) -> None:
        for index in self.order:
            optimizer = self.optimizers()[index]
            optimizer.zero_grad()
            hidden = torch.relu(self.first(batch[0]))
            self.manual_backward(self.loss(self.head(hidden.detach() if index else hidden), batch[1]))
            self.take(optimizer)

    def take(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(part.parameters(), lr=0.01) for part in (self.first, self.head)]


class Unstepped(TwoLayers):
    def take(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer.param_groups[0]["params"][0] is not self.head.weight:
            optimizer.step()


class Exchanged(TwoLayers):
    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return super().configure_optimizers()[::-1]


class OneAfterTheOther(TwoLayers):
    """Trains all weights by its first optimizer, and later by its second."""

    order = (0,)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(self.parameters(), lr=0.01) for _ in range(2)]


PROBE = Probe(
    question="Does each optimizer use the gradients of its parameters in a step, before they are zeroed?",
    why="its parameters are never trained: step() is left out, or called on another optimizer than the loss is for",
    fix=Fix(
        "call step() of this optimizer behind the backward pass of its own loss; look at the order of optimizers()"
    ),
    detect=detect,
    faulty=several_steps(Unstepped),
    healthy=several_steps(TwoLayers),
    also_healthy=(several_steps(OneAfterTheOther),),
    also_faulty=(several_steps(Exchanged),),
)
