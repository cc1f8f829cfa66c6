from training_checklist.instruments import Job, JobConfig, absent_arguments, calls, source
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in calls(config):
        lacks = absent_arguments(call.key, call.node, call.parameters, source(config), config.names) * call.is_built
        if lacks:
            fix = Fix(overrides=tuple(f"+{call.key}.{name}=VALUE" for name in lacks))
            if {*lacks} <= {"params", "optimizer"}:
                fix = Fix("whoever builds it supplies them", overrides=(f"+{call.key}._partial_=true",))
            yield Hit(f"{call.key} lacks {', '.join(lacks)} of {call.callee}", config.place(call.key), fix=fix)


PROBE = Probe(
    question="Does every _target_ get all the arguments that its signature requires?",
    why="calling it raises a TypeError",
    fix=Fix("give them in the config, or in the code"),
    detect=detect,
    faulty=Job(("+callbacks.early={_target_: pytorch_lightning.callbacks.EarlyStopping}",)),
    healthy=Job(("+callbacks.early={_target_: pytorch_lightning.callbacks.EarlyStopping, monitor: train/loss}",)),
)
