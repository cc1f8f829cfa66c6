from training_checklist.instruments import RATE, TwoEpochs, attempted, range_test
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    test = range_test(run)
    other = test.better(RATE)
    if other is None or 1 < round(other.given / other.value) < limits.max_too_low:
        return
    too = "low" if other.given > other.value else "high"
    yield Hit(
        f"the loss does not fall: {test.asked}; with {RATE}={other.given:.3g}: {other}",
        Place(key=RATE, value=f"{other.value:.3g}"),
        f"the learning rate is too {too}: nothing else differs between the two trainings",
        Fix(overrides=(f"{RATE}={other.given:.3g}",)),
    )


PROBE = Probe(
    question="Does the loss fall with the configured learning rate?",
    why="another rate makes it fall",
    detect=detect,
    fix=Fix("set the learning rate to what makes the loss fall"),
    thresholds={
        "max_too_low": Threshold(
            1000,
            "times the rate is the least that makes the loss fall; rates that are in use span three powers of ten, "
            "from 1e-5 in fine-tuning to 1e-2",
            factor=20.0,
        )
    },
    faulty=attempted(rate=1e-4),
    healthy=attempted(rate=1e-3),
)
