from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import ClassWeights
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold

POWERS = (1.0, 0.5)  # the inverse of the frequency, and of its root


def judge(classes: ClassWeights, limits: Any) -> Iterator[Hit]:
    if not classes.whole or min(classes.whole) == 0:
        raise CannotJudge("too few labels of the training set are known")
    alike = limits.weights_of_sample if classes.sampled else limits.weights_alike
    apart = limits.weights_far_apart if classes.sampled else limits.weights_apart
    for power in POWERS:
        inverse = [count**-power for count in classes.whole]
        own = [each * sum(classes.weights) / sum(inverse) for each in inverse]
        if spread(sorted(classes.weights), sorted(own)) < alike < apart < spread(classes.weights, own):
            label = max(range(len(own)), key=lambda each: abs(classes.weights[each] - own[each]))
            yield Hit(
                f"the weights that {classes.criterion} is given belong to the frequencies of the classes in another "
                f"order: class {label}, with {classes.whole[label]} of {sum(classes.whole)} labels, has "
                f"{classes.weights[label]:.3g}, and {own[label]:.3g} is its own",
                classes.place,
            )
            return


def spread(weights: list[float], inverse: list[float]) -> float:
    """Return by which factor the ratios of two lists differ: 1 where one is a multiple of the other."""
    ratios = [one / other for one, other in zip(weights, inverse, strict=True)]
    return max(ratios) / min(ratios) if min(ratios) > 0 else float("inf")


RULE = Rule(
    id="data/weights-of-other-classes",
    item="limit_batches",
    question="Does each class have its own weight?",
    why="weights that were computed in another order, such as that of frequency, make up for other classes",
    severity=FAILED,
    evidence=ClassWeights,
    judge=judge,
    fix=Fix("count in the order of the labels: torch.bincount(labels, minlength=classes)"),
    faulty=lambda: ClassWeights("cross_entropy", [0.4, 0.8, 1.6, 3.2], [], whole=[400, 50, 200, 100]),
    healthy=lambda: ClassWeights("cross_entropy", [0.4, 3.2, 0.8, 1.6], [], whole=[400, 50, 200, 100]),
    thresholds={
        "weights_alike": Threshold(1.05, "factor between ratios: weights may be rounded to two digits"),
        "weights_apart": Threshold(1.2, "factor between ratios in place: a class has another one's weight"),
        "weights_of_sample": Threshold(1.6, "likewise, of frequencies that are known to a quarter, up and down"),
        "weights_far_apart": Threshold(2.5, "likewise in place: further apart than such frequencies are vague"),
    },
)
