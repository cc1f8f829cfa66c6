from training_checklist.instruments import CLIPPING, TwoEpochs, attempted, range_test
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    test = range_test(run)
    without = test.better(CLIPPING)
    if without is not None:
        yield Hit(
            f"the loss does not fall: {test.asked}; with {CLIPPING}=null: {without}; the first gradient has a norm of "
            f"{test.grad_norm:.2g}",
            Place(key=CLIPPING, value=f"{without.value:.3g}"),
        )


PROBE = Probe(
    question="Does the loss fall in spite of gradient clipping?",
    why="nothing else differs between the two trainings",
    detect=detect,
    fix=Fix(overrides=(f"{CLIPPING}=null",)),
    faulty=attempted(gradient_clip_val=1e-6),
    healthy=attempted(gradient_clip_val=1.0),
)
