import math

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import (
    Small,
    TwoEpochs,
    first_losses,
    leaves,
    with_sgd,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    loss, calls, batch = first_losses(run)
    known = [call for call in calls if call.result is not None and call.result.ndim == 0]
    targets = [call.target.detach() for call in known]
    of_classes = bool(known) and known[0].num_classes is not None
    if not known or len(known) != len(calls) or len({call.name for call in known}) > 1:
        raise CannotJudge("the loss is made of no criterion that is known, or of several")
    # A sum over the values of one sample may be meant.
    cut = any(is_cut(targets, leaf) for leaf in leaves(batch).values())
    if not cut or (len(known) == 1 and not of_classes):
        raise CannotJudge("the criterion is not given the targets of the batch, as they are or cut into parts")
    classes = [set(target.unique().tolist()) for target in targets] if of_classes else []
    apart = len(classes) > 1 and sum(map(len, classes)) == len(set().union(*classes))  # weighed against one another
    summed, number = sum(float(call.result.detach()) for call in known), sum(map(len, targets))
    reduction = str(known[0].options.get("reduction"))
    mean = sum(call.mean * call.target.numel() for call in known) / max(sum(call.target.numel() for call in known), 1)
    if apart or not math.isclose(loss, summed, rel_tol=1e-4):  # of rounding in float32
        return
    if reduction == "sum" and number > 1:
        what = f"the loss is the criterion's sum over {number} labels"
    elif reduction == "mean" and len(known) > 1:
        what = f"the loss is the sum of {len(known)} means, each over its own part of the batch's {number} labels"
    else:
        return
    times = f"{loss:.4g}, {loss / mean:.3g} times the mean over the batch, {mean:.4g}"
    yield Hit(f"{what}: {times}", known[-1].place)


def is_cut(targets: list[Tensor], leaf: Tensor) -> bool:
    """Whether some targets are one tensor of the batch, cut into parts of samples."""
    if not all(target.ndim and target.shape[1:] == leaf.shape[1:] for target in targets) or not leaf.ndim:
        return False
    together = torch.cat(targets)
    return together.shape == leaf.shape and torch.equal(
        together.flatten().sort().values, leaf.to(together).flatten().sort().values
    )


class Summed(Small):
    reduction = "sum"

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(answers, labels, reduction=self.reduction)


PROBE = Probe(
    question="Is the loss a mean over the batch, and not a sum?",
    why="gradients are as many times as large, and so is each step of an optimizer like SGD: the learning rate means "
    "something else with every size of the batch or number of its parts",
    severity=WARNING,
    detect=detect,
    fix=Fix("divide by the number of parts, or give the criterion reduction=mean"),
    faulty=with_sgd(Summed, rate=0.001),
    healthy=with_sgd(type("Mean", (Summed,), {"reduction": "mean"})),
)
