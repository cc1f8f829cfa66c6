from training_checklist.instruments import Job, JobConfig, text_values
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, text in text_values(config).items():
        advice = f"in a file without quotes: {key.rpartition('.')[2]}: {text.meant}"
        what, why = f"{key} is the text {text.value!r}, not {text.wanted}", f"{text.why}; {PROBE.why}"
        yield Hit(what, config.place(key), why=why, fix=Fix(advice, overrides=(f"{key}={text.meant}",)))


PROBE = Probe(
    question="Is every number, bool, null and list in the config written as such, and not as a string?",
    why="a text fails where it is used, or counts as true",
    fix=Fix("write it without quotes"),
    detect=detect,
    faulty=Job(("+trainer.max_epochs='3'",)),
    healthy=Job(("+trainer.max_epochs=3",)),
)
