from training_checklist.instruments import (
    CHANCE,
    ClassWeights,
    Data,
    at_least,
    class_weights,
    of_one_order,
    with_class_weights,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    for weights in class_weights(data):
        yield from judge(weights, limits)


def judge(classes: ClassWeights, limits: Limits) -> Hits:
    numbers = classes.whole or classes.counts
    # A weight of 0 leaves a class out on purpose.
    known = [(numbers[label], weight, label) for label, weight in enumerate(classes.weights) if weight > 0]
    counts, weights, _ = zip(*known, strict=True) if known else ((), (), ())
    if len(set(weights)) < 4:  # of three weights, one order in six is the best: chance alone makes that
        return
    total, most, least = sum(counts), max(known), min(known)
    if not least[0]:
        raise CannotJudge(
            f"{counts.count(0)} of {len(counts)} classes with a weight are among no labels that were seen"
        )
    (often, high, common), (seldom, low, rare) = most, least
    differ = at_least(often, often + seldom, 0.5) < CHANCE
    if differ and high > low and of_one_order(weights, counts) < limits.max_order_chance:
        yield Hit(
            f"the weights that {classes.criterion} is given grow with how often a class occurs: class {common}, "
            f"{100 * often / total:.3g}% of the labels, has {high:.3g}, and class {rare}, "
            f"{100 * seldom / total:.3g}% of them, has {low:.3g}",
            classes.place,
        )


PROBE = Probe(
    question="Are class weights larger for rare classes than for frequent ones?",
    why="weights are there to make up for rare classes; these make the network neglect them all the more",
    severity=WARNING,
    fix=Fix("weight each class by the inverse of its frequency: weight = counts.sum() / (len(counts) * counts)"),
    detect=detect,
    faulty=with_class_weights([240, 120, 60, 30], [4, 3, 2, 1]),
    healthy=with_class_weights([240, 120, 60, 30], [4, 3, 1, 2]),
    thresholds={
        "max_order_chance": Threshold(
            0.05,
            "how often random weights are in such an order; of four classes, the best order comes once in 24",
            factor=4.0,
        )
    },
    also_healthy=(with_class_weights([63, 62, 61, 60], [4, 3, 2, 1]),),
)
