import torch
from torch.nn import functional

from training_checklist.instruments import Example, Numbers, project, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    step = numbers.forward
    if not step.weights or step.eps is None:
        return
    eps, optimizer, dtype = step.eps
    yield Hit(
        f"{step.seen}: {optimizer} has made weights NaN or Inf",
        Place(key="optimizer.eps", value=f"{eps:g}", parameter=shown(step.weights)),
        f"it divides by the root of squared gradients plus eps, and eps={eps:g} is 0 in {dtype}: 0 / 0",
    )


def of_eps(eps: float) -> Example:
    """Make a training of weights in FP16 whose gradients are 0."""
    module = project(lambda answers, labels: functional.cross_entropy(0 * answers, labels)).module
    adam = {"configure_optimizers": lambda self: torch.optim.Adam(self.parameters(), eps=eps)}
    return Example(type("Half", (module,), adam), trainer={"precision": "16-true"})


PROBE = Probe(
    item="overflow",
    question="Is the optimizer's eps more than 0 in the dtype of its weights?",
    why="the optimizer divides 0 by 0 where a gradient is 0",
    detect=detect,
    fix=Fix("the least that FP16 holds is 6e-8; or set optimizer.eps=0.0001", ("trainer.precision=bf16-mixed",)),
    faulty=of_eps(1e-8),
    healthy=of_eps(1e-4),
)
