from training_config.targets import locate, parameters_of
from training_config.walk import is_missing, value_of, walk

from training_checklist.instruments import FILES, Job, JobConfig, override_of
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for full_key, parent, key in walk(config.job):
        # The code may give it a value, or need none in this job.
        known = str(key) in config.code.assigned | config.code.supplied or config.code.is_guarded(full_key)
        if is_missing(parent, key) and not known:
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


AT_TIMES = FILES["train.py"].replace("ckpt_path=cfg.tested", "ckpt_path=cfg.evaluate.checkpoint")

PROBE = Probe(
    question="Has every mandatory value (???) been given?",
    why="the run ends as soon as the value is read",
    predicts_crash=True,
    fix=Fix("give it one"),
    detect=detect,
    faulty=Job(("quiet=???",)),
    healthy=Job(("quiet=${test}",)),
    also_healthy=(Job(("tested=???",)), Job(("+evaluate.checkpoint=???",), {"train.py": AT_TIMES})),
)
