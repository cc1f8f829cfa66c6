from training_config.targets import locate, parameters_of
from training_config.walk import is_missing, value_of, walk

from training_checklist.instruments import Job, JobConfig, override_of
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for full_key, parent, key in walk(config.job):
        # The code may give it a value.
        if is_missing(parent, key) and str(key) not in config.code.assigned | config.code.supplied:
            try:
                of = value_of(parent, "_target_")
                default = parameters_of(locate(of))[key].default
            except (ImportError, KeyError, AttributeError, TypeError):
                default = None
            fix = Fix(overrides=(f"{full_key}=VALUE",))
            if isinstance(default, (bool, int, float, str)):
                given = override_of(default)
                fix = Fix(f"{given} is the default of {of}", overrides=(f"{full_key}={given}",))
            yield Hit(f"{full_key} is ???: nothing has given it a value", config.place(full_key), fix=fix)


PROBE = Probe(
    question="Has every mandatory value (???) been given?",
    why="the run ends as soon as the value is read",
    predicts_crash=True,
    fix=Fix("give it one"),
    detect=detect,
    faulty=Job(("quiet=???",)),
    healthy=Job(("quiet=${test}",)),
)
