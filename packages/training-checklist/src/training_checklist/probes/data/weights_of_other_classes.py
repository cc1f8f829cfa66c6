from training_checklist.instruments import ClassWeights, Data, class_weights, with_class_weights
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

POWERS = (1.0, 0.5)  # the inverse of the frequency, and of its root


def detect(data: Data, limits: Limits) -> Hits:
    for weights in class_weights(data):
        yield from judge(weights, limits)


def judge(classes: ClassWeights, limits: Limits) -> Hits:
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


PROBE = Probe(
    question="Are class weights in the order of the labels, so that each class gets the weight of its own frequency?",
    why="weights that were computed in another order, such as that of frequency, make up for other classes",
    fix=Fix("count in the order of the labels: torch.bincount(labels, minlength=classes)"),
    detect=detect,
    faulty=with_class_weights([400, 50, 200, 100], [1, 2, 4, 8]),
    healthy=with_class_weights([400, 50, 200, 100], [1, 8, 2, 4]),
    thresholds={
        "weights_alike": Threshold(
            1.05,
            "factor between ratios: weights may be rounded to two digits",
            factor=1.1,
            healthy=with_class_weights([400, 50, 200, 100], [1.1, 2, 4, 8]),
        ),
        "weights_apart": Threshold(
            1.2,
            "factor between ratios in place: a class has another one's weight",
            factor=1.1,
            faulty=with_class_weights([100, 114, 100, 114], [1.14, 1.14, 1, 1]),
            healthy=with_class_weights([100, 107, 100, 107], [1.07, 1.07, 1, 1]),
        ),
        "weights_of_sample": Threshold(
            1.6,
            "likewise, of frequencies that are known to a quarter, up and down",
            factor=1.5,
            faulty=with_class_weights([800, 100, 400, 200], [1.3, 2, 4, 8], whole=False),
            healthy=with_class_weights([800, 100, 400, 200], [2.0, 2, 4, 8], whole=False),
        ),
        "weights_far_apart": Threshold(
            2.5,
            "likewise in place: further apart than such frequencies are vague",
            factor=1.5,
            faulty=with_class_weights([400, 720, 400, 720], [1.8, 1.8, 1, 1], whole=False),
            healthy=with_class_weights([400, 580, 400, 580], [1.45, 1.45, 1, 1], whole=False),
        ),
    },
)
