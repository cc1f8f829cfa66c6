from training_checklist.instruments import CLIPPING, RATE, TwoEpochs, range_test, with_sgd
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    test = range_test(run)
    other = test.better(limits.times_as_far)
    if other is None:
        return
    given, why = f"{other.given or 0:.3g}", "the decay shrinks the weights faster than they learn"
    if other.change == CLIPPING:
        given, why = "null", f"the first gradient has a norm of {test.grad_norm:.2g}"
    elif other.change == RATE:
        if 1 < round(other.given / other.value) < limits.max_too_low:
            return
        why = f"the learning rate is too {'low' if other.given > other.value else 'high'}"
    yield Hit(
        f"the loss does not fall: {test.asked}; with {other.change}={given}: {other}",
        Place(key=other.change, value=f"{other.value:.3g}"),
        f"{why}: nothing else differs between the two trainings",
        Fix(overrides=(f"{other.change}={given}",)),
    )


PROBE = Probe(
    question="Does the loss fall with the configured learning rate, weight decay and gradient clipping?",
    why="another setting makes it fall",
    detect=detect,
    fix=Fix("set it to what makes the loss fall"),
    aliases=("learning/gradient-clipping", "learning/learning-rate", "learning/weight-decay"),
    thresholds={
        "max_too_low": Threshold(
            1000,
            "times the rate is the least that makes the loss fall; rates that are in use span three powers of ten, "
            "from 1e-5 in fine-tuning to 1e-2",
            factor=20.0,
        ),
        "times_as_far": Threshold(
            10.0,
            "times as far the loss falls with the other setting: rates that are tried differ by powers of ten, and "
            "nearer together both trainings learn",
            factor=2.0,
            faulty=with_sgd(gradient_clip_val=0.03),
            healthy=with_sgd(gradient_clip_val=0.06),
        ),
    },
    faulty=with_sgd(rate=1e-4),
    also_faulty=(with_sgd(weight_decay=25.0), with_sgd(gradient_clip_val=1e-6)),
    healthy=with_sgd(rate=1e-3),
    also_healthy=(with_sgd(weight_decay=0.01, gradient_clip_val=1.0),),
)
