from math import isclose

from torch.nn import functional

from training_checklist.instruments import Example, Losses, Step, project
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(step: Step, limits: Limits) -> Hits:
    accumulated = step.trainer.accumulate_grad_batches
    if not step.pl_module.automatic_optimization or accumulated == 1:
        raise CannotJudge("Lightning accumulates no gradients")
    for loss in step.heard().of_criteria():
        if len(loss.slopes) > 1:
            continue
        [single] = loss.slopes
        if isclose(single.slope, accumulated**-2, rel_tol=limits.divided_twice):
            yield Hit(
                f"the loss is {single.name} / {accumulated}, and Lightning divides it by accumulate_grad_batches="
                f"{accumulated} once more",
                single.place,
            )


def accumulating(divisor: float) -> Example:
    module = project(lambda answers, labels: functional.cross_entropy(answers, labels) / divisor).module
    return Example(module, trainer={"accumulate_grad_batches": 4})


PROBE = Probe(
    question="Does training_step leave it to Lightning to divide the loss by accumulate_grad_batches?",
    why="the loss is divided twice, so that gradients are as many times too small as batches are accumulated",
    fix=Fix("return the loss of the batch as it is: Lightning divides it"),
    thresholds={
        "divided_twice": Threshold(
            1e-4,
            "relative, between the slope and 1 / batches**2: a product of a few numbers of float32 is off by 1e-6, and "
            "a weight that is written with two digits by 1e-2: their geometric mean",
            factor=10.0,
            faulty=accumulating(4 * (1 + 5e-5)),
            healthy=accumulating(4 * (1 + 5e-4)),
        )
    },
    listener=Losses,
    detect=detect,
    faulty=accumulating(4),
    healthy=accumulating(3),
)
