from training_checklist.instruments import Schedules, by_factor
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        peak = max(each.course, default=0.0)
        if 0 < each.base < limits.factor and 0 < peak < limits.share * each.base:
            squared = abs(peak / each.base**2 - 1) < limits.share
            if each.course[-1] == peak > each.course[0] and not squared:
                continue  # it still rises where the run ends: that is a warm-up which is too long
            why = " - its square: the function returns a rate, and is multiplied by the rate" if squared else ""
            yield Hit(f"the learning rate is {peak:.3g} at most, and {each.base:.3g} is configured{why}", each.place)


PROBE = Probe(
    question="Does the lr_scheduler bring the learning rate near the optimizer's lr at some point?",
    why="schedules multiply the optimizer's rate by a factor, and most reach 1: the run learns next to nothing",
    severity=WARNING,
    fix=Fix("let the function of LambdaLR return a factor of the optimizer's rate, from 0 to 1"),
    detect=detect,
    thresholds={
        "share": Threshold(
            0.1,
            "of the configured rate: rates are chosen by powers of ten",
            factor=2.0,
            faulty=by_factor(lambda call: 0.07),
            healthy=by_factor(lambda call: 0.15),
        ),
        "factor": Threshold(
            0.5,
            "a rate from which on it is a factor: schedules like Noam's multiply 1 or 2 (Vaswani et al. 2017, 5.3)",
            factor=2.0,
            faulty=by_factor(lambda call: 0.01, lr=0.4),
            healthy=by_factor(lambda call: 0.01, lr=0.8),
        ),
    },
    faulty=by_factor(lambda call: 0.01),
    healthy=by_factor(lambda call: min(1.0, call / 10)),
    also_healthy=(by_factor(lambda call: call / 10_000),),  # schedule/warms-up-to-the-end tells of it
)
