from training_checklist.instruments import Average, averaging, of_each
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


@of_each(lambda run: run.epochs.averages.found(), "nothing was seen to go towards the weights")
def detect(average: Average, limits: Limits) -> Hits:
    share = sum(average.shares) / max(len(average.shares), 1)
    if average.is_steady(limits.one_share) and limits.max_last < share < 1:
        yield Hit(
            f"{average.name} goes {share:.2g} of the way to the weights each time: it is what they were in the last "
            "step, and averages nothing",
            average.place,
        )


PROBE = Probe(
    question="Does the moving average of the weights average over several steps, and not only over the last?",
    why="decay and 1 - decay may have changed places",
    severity=WARNING,
    detect=detect,
    fix=Fix("average = decay * average + (1 - decay) * weight, with a decay such as 0.999"),
    thresholds={
        "max_last": Threshold(0.5, "share; beyond it the last step counts more than all others together", factor=1.5),
        "one_share": Threshold(
            1.01,
            "factor between the largest and the least share: roundings of float32",
            factor=1.5,
            healthy=averaging(lambda step: 0.6 + 0.01 * step),
        ),
    },
    faulty=averaging(lambda step: 0.6),
    healthy=averaging(lambda step: 0.4),
)
