from omegaconf import DictConfig
from training_config.walk import walk

from training_checklist.instruments import Job, JobConfig, as_written, text_values
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for full_key, node, key in walk(config.job):
        known = full_key in text_values(config) or full_key.startswith("debug.") or not isinstance(node, DictConfig)
        if not known and as_written(node, key) == "None":
            fix = Fix(overrides=(f"{full_key}=null",))
            yield Hit(f"{full_key} is the text 'None'", config.place(full_key), fix=fix)


PROBE = Probe(
    question="Is an empty value written as null, and not as None, which YAML reads as a string?",
    why="nothing is written as null; the text None is a value like any other, and true",
    severity=WARNING,
    fix=Fix("write null"),
    detect=detect,
    faulty=Job(("resume=None",)),
    healthy=Job(("resume=null",)),
)
