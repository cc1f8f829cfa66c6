from training_checklist.instruments import DECAY, TwoEpochs, attempted, range_test
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    test = range_test(run)
    without = test.better(DECAY)
    if without is not None:
        yield Hit(
            f"the loss does not fall: {test.asked}; with {DECAY}=0: {without}",
            Place(key=DECAY, value=f"{without.value:.3g}"),
        )


PROBE = Probe(
    question="Does the loss fall in spite of weight decay?",
    why="the decay shrinks the weights faster than they learn",
    detect=detect,
    fix=Fix(overrides=(f"{DECAY}=0",)),
    faulty=attempted(weight_decay=25.0),
    healthy=attempted(weight_decay=0.01),
)
