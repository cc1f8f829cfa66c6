from training_checklist.instruments import Average, Averages, averaging, of_each
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

ROUNDING = 1e-6  # of a share, as it is measured


@of_each(lambda run: run.heard().found(), "nothing was seen to go towards the weights")
def detect(average: Average, limits: Limits) -> Hits:
    if not average.is_steady(limits.same_share):
        first, last = average.shares[0], average.shares[-1]
        if last > first * limits.same_share and average.shares == sorted(average.shares):
            yield Hit(
                f"{average.name} goes an ever larger share of the way to the weights, {first:.2g} and then {last:.2g}: "
                "the longer the training, the less it averages",
                average.place,
                "decay and 1 - decay may have changed places, in a schedule by which the decay rises",
                severity=WARNING,
            )
        return
    share = sum(average.shares) / len(average.shares)
    left = (1 - share) ** average.times
    if left > limits.max_beginning and not average.asked:
        yield Hit(
            f"after all {average.times:g} updates {left:.0%} of {average.name} are still what it began with: each goes "
            f"{share:.2g} of the way to the weights",
            average.place,
        )
    elif limits.max_last < share < 1 - ROUNDING:  # a copy, made anew each time, is another's question
        yield Hit(
            f"{average.name} goes {share:.2g} of the way to the weights each time: it is what they were in the last "
            "step, and averages nothing",
            average.place,
            "decay and 1 - decay may have changed places",
            severity=WARNING,
        )


PROBE = Probe(
    question="Does the decay of a moving average of the weights let it average over many steps of the training?",
    why="what is evaluated with these weights is rather the untrained network than the trained one",
    listener=Averages,
    detect=detect,
    fix=Fix(
        "average = decay * average + (1 - decay) * weight: a decay of 1 - 10 / steps of the training forgets all but "
        "0.005 % of the beginning"
    ),
    aliases=("learning/average-never-arrives", "learning/average-of-the-last-step"),
    thresholds={
        "max_beginning": Threshold(
            2 / 3, "share: the beginning counts twice as much as what was learnt; short runs keep a default of 0.999"
        ),
        "same_share": Threshold(
            1.05,
            "factor between the largest and the least share; a decay that is still rising changes by more a step",
            factor=1.5,
            healthy=averaging(lambda step: 0.034 - 0.001 * step),
        ),
        "max_last": Threshold(
            0.5,
            "share; beyond it the last step counts more than all others together",
            factor=1.5,
            faulty=averaging(lambda step: 0.6),
            healthy=averaging(lambda step: 0.4),
        ),
    },
    faulty=averaging(lambda step: 0.01),
    healthy=averaging(lambda step: 0.05),
    also_faulty=(averaging(lambda step: (1 + step) / (10 + step)),),
    also_healthy=(averaging(lambda step: 0.8 - 0.01 * step), averaging(lambda step: 9 / (10 + step))),
)
