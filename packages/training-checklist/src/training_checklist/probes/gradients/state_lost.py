from typing import Any

import torch
from torch.optim import Optimizer

from training_checklist.instruments import FirstSteps, Small, of_function, several_steps, tensors
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

KEEP = Fix("put what it averages into self.state[parameter], by setdefault, and change it in place")


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = [each for each in steps.optimizers if any(of for _, of in each.forgotten) or averages_by(each.optimizer)]
    if not known:
        raise CannotJudge("no optimizer counts steps in its state, or averages over them")
    for each in known:
        lost, averaged = [(back, of) for back, of in each.forgotten if back], averages_by(each.optimizer)
        if lost:
            back, of = lost[0]
            yield Hit(
                f"{each.name} loses its state: between two steps that of {back} of {of} parameters is thrown away "
                f"or set back, {len(lost)} times of {len(each.forgotten)}",
                Place(note=f"the state of {each.name}: a hook of the LightningModule or a callback"),
            )
        elif averaged and any(effect.changed for effect in each.effects) and not holds_anything(each.optimizer):
            what = f"{each.name} has {averaged}, and keeps nothing from step to step"
            yield Hit(what, of_function(type(each.optimizer).step).beside(note=each.name), fix=KEEP)


def averages_by(optimizer: Optimizer) -> str:
    """Return the hyperparameter by which an optimizer averages over steps, "" where it has none."""
    for group in optimizer.param_groups:
        for name in ("momentum", "betas"):
            value = group.get(name)
            if any(value) if isinstance(value, tuple) else value:
                return f"{name}={value}"
    return ""


def holds_anything(optimizer: Optimizer) -> bool:
    """Whether there are tensors in its state, or in attributes of its own, such as another optimizer's."""
    own = [value for name, value in vars(optimizer).items() if name not in ("param_groups", "defaults")]
    return any(isinstance(each, Optimizer) for each in own) or any(True for each in own for _ in tensors(each))


class Forgetful(Small):
    forgets = True

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if self.forgets:
            self.optimizers().optimizer.state.clear()

    def configure_optimizers(self) -> Optimizer:
        return torch.optim.Adam(self.parameters())


class Signed(Optimizer):
    """Steps along the sign of an average that it keeps, or that it makes anew each time."""

    keeps = True

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.001, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for weight in group["params"]:
                made = torch.zeros_like(weight)
                average = self.state[weight].setdefault("average", made) if self.keeps else made
                average.lerp_(weight.grad, 1 - group["betas"][0])
                weight.sub_(average.sign(), alpha=group["lr"])
        return loss


class Signing(Small):
    optimizer = Signed

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.parameters())


Unkept = type("Unkept", (Signing,), {"optimizer": type("Unkept", (Signed,), {"keeps": False})})

PROBE = Probe(
    question="Does the optimizer keep its state (such as Adam's averages) from step to step?",
    why="without its averages over past gradients each step has the size of the first, whatever the slope",
    fix=Fix("leave optimizer.state alone, and build the optimizer once, in configure_optimizers"),
    detect=detect,
    faulty=several_steps(Forgetful),
    also_faulty=(several_steps(Unkept),),
    healthy=several_steps(type("Keeping", (Forgetful,), {"forgets": False})),
    also_healthy=(several_steps(Signing),),
)
