from training_checklist.instruments import Average, Averages, averaging, of_each
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


@of_each(lambda run: run.heard().found(), "nothing was seen to go towards the weights")
def detect(average: Average, limits: Limits) -> Hits:
    if average.off > limits.max_off:
        yield Hit(
            f"{average.name} goes {average.shares[-1]:.2g} of the way to the weights each time, and was no copy "
            f"of them when training began: they were apart by {average.off:.2g} times their norm",
            average.place,
        )


PROBE = Probe(
    question="Does a moving average of the weights begin as a copy of them?",
    why="until the average has arrived, its network is one that nobody has trained",
    severity=WARNING,
    may_be_wrong="a teacher may be trained before, which then drifts to its student",
    listener=Averages,
    detect=detect,
    fix=Fix("average.load_state_dict(network.state_dict()) once, before training, or copy.deepcopy(network)"),
    thresholds={
        "max_off": Threshold(
            0.5,
            "of the weights' norm; two draws of one initialisation are apart by 1.4 times it, and what an optimizer "
            "has done to a copy in a run before is less than that",
            factor=2.0,
            faulty=averaging(lambda step: 0.05, off=0.8),
            healthy=averaging(lambda step: 0.05, off=0.3),
        )
    },
    faulty=averaging(lambda step: 0.05, off=1.4),
    healthy=averaging(lambda step: 0.05),
    also_healthy=(averaging(lambda step: 0.05, off=-1.0),),  # it begins with zeros, and is corrected for them
)
