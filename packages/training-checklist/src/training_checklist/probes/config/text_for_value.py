import re

from omegaconf import DictConfig
from training_config.walk import walk

from training_checklist.instruments import Job, JobConfig, as_written, text_values
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe

OF_NAMES = Job(("+norm=None",), line="print({'None': 0, 'layer': 1}[cfg.norm])")
QUOTED = re.compile(r"""["']None["']""")  # by somebody who wants a text, as some libraries have it among others


def detect(config: JobConfig, limits: Limits) -> Hits:
    texts = text_values(config)
    for key, text in texts.items():
        advice = f"in a file without quotes: {key.rpartition('.')[2]}: {text.meant}"
        what, why = f"{key} is the text {text.value!r}, not {text.wanted}", f"{text.why}; {PROBE.why}"
        yield Hit(what, config.place(key), why=why, fix=Fix(advice, overrides=(f"{key}={text.meant}",)))
    for key, node, name in walk(config.job):
        known = key in texts or key.startswith("debug.") or not isinstance(node, DictConfig)
        known |= config.code.has_none_as_text
        if not known and as_written(node, name) == "None" and not QUOTED.search(config.line(key)):
            fix = Fix("YAML writes it null", overrides=(f"{key}=null",))
            yield Hit(f"{key} is the text 'None'", config.place(key), fix=fix, severity=WARNING)


PROBE = Probe(
    question="Is every number, bool, null and list in the config written as such, and not as a string?",
    why="a text fails where it is used, or counts as true",
    fix=Fix("write it without quotes"),
    aliases=("config/text-none",),
    detect=detect,
    faulty=Job(("+trainer.max_epochs='3'",)),
    also_faulty=(Job(("resume=None",)),),
    healthy=Job(("+trainer.max_epochs=3", "resume=null")),
    also_healthy=(Job(("+kind=quoted",), {"conf/kind/quoted.yaml": "norm: 'None'\n"}), OF_NAMES),
)
