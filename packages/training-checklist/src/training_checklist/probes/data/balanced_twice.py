from training_checklist.instruments import ClassWeights, Data, class_weights, with_class_weights
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    for weights in class_weights(data):
        yield from judge(weights, limits)


def judge(classes: ClassWeights, limits: Limits) -> Hits:
    if not classes.whole or min(classes.whole) == 0 or sum(classes.counts) == 0:
        raise CannotJudge("not all labels of the training set are known")
    often, rare = (choose(range(len(classes.whole)), key=classes.whole.__getitem__) for choose in (max, min))
    uneven = classes.whole[often] / classes.whole[rare]
    if uneven < limits.uneven or classes.counts[rare] < limits.seen:
        return
    drawn = classes.counts[often] / classes.counts[rare]
    weighted = classes.weights[rare] / max(classes.weights[often], 1e-12)
    drawn_evenly = drawn < uneven / limits.drawn_evenly
    if drawn_evenly and weighted / max(drawn, 1 / sum(classes.counts)) > limits.beyond_balance:
        yield Hit(
            f"class {rare} is {uneven:.3g} times as rare as class {often} in the training set; in batches it is "
            f"{drawn:.2g} times as rare, and {classes.criterion} gives it {weighted:.3g} times the weight besides",
            classes.place.beside(loader="train_dataloader"),
        )


PROBE = Probe(
    question="Are rare classes balanced by a sampler or by class weights, and not by both?",
    why="rare classes count as much more as they counted less: the network answers them too often",
    severity=WARNING,
    fix=Fix("draw samples by their class, or weigh classes in the criterion: one of the two"),
    detect=detect,
    faulty=with_class_weights([120, 20, 20, 20], [1, 4, 4, 4], [20, 20, 20, 20]),
    healthy=with_class_weights([120, 20, 20, 20], [1, 4, 4, 4], [120, 20, 20, 20]),
    thresholds={
        "drawn_evenly": Threshold(
            2.0,
            "times as often as in the training set: as a sampler by class draws rare ones",
            faulty=with_class_weights([120, 20, 20, 20], [1, 6, 6, 6], [30, 20, 20, 20]),
            healthy=with_class_weights([120, 20, 20, 20], [1, 10, 10, 10], [80, 20, 20, 20]),
        ),
        "beyond_balance": Threshold(
            2.0,
            "times as much as the frequent class: labels are known to a third at least",
            healthy=with_class_weights([120, 20, 20, 20], [1, 1.5, 1.5, 1.5], [20, 20, 20, 20]),
        ),
        "uneven": Threshold(
            3.0,
            "times as rare; of classes that are nearer to each other a few batches tell nothing",
            healthy=with_class_weights([40, 20, 20, 20], [1, 4, 4, 4], [10, 20, 20, 20]),
        ),
        "seen": Threshold(
            10,
            "labels of the rarest class in the batches; their number is known to a third then",
            healthy=with_class_weights([120, 20, 20, 20], [1, 4, 4, 4], [5, 5, 5, 5]),
        ),
    },
)
