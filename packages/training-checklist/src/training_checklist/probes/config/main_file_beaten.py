from training_checklist.instruments import Job, JobConfig, beaten, override_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, settings, primary in beaten(config):
        if not primary.chosen:
            fix = Fix(f"move _self_ to the end of the defaults list in {primary.file}, or remove the value there")
            what = (
                f"{key} is {override_of(settings[-1].value)}, not {override_of(primary.value)} as {primary.file} says"
            )
            yield Hit(what, config.place(key), fix=fix)


def composed(*defaults: str) -> Job:
    return Job((), {"conf/trainer/auto.yaml": "accelerator: auto\n"}, defaults)


PROBE = Probe(
    question="Does each value of the main config file end up in the composed config?",
    why="the value in the main file has no effect, whichever it is",
    severity=WARNING,
    fix=Fix("move _self_ to the end of the defaults list"),
    detect=detect,
    faulty=composed("_self_", "trainer: auto"),
    healthy=composed("trainer: auto", "_self_"),
)
