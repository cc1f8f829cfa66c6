from difflib import get_close_matches

from training_config.targets import takes_any

from training_checklist.instruments import Job, JobConfig, calls, override, provenance
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in calls(config):
        if takes_any(call.parameters):
            for name in (each for each in call.given() if each not in {*call.parameters, *config.code.popped}):
                key, value = f"{call.key}.{name}", override(call.node, name)
                others = [each for each in call.parameters if not are_of_one_file(config, key, f"{call.key}.{each}")]
                near = get_close_matches(name, others, n=1, cutoff=limits.min_likeness)
                if near:
                    what = f"{key}={value} is no parameter of {call.callee}; did you mean {near[0]}?"
                    fix = Fix(overrides=(f"~{key}", f"++{call.key}.{near[0]}={value}"))
                    yield Hit(what, config.place(key), fix=fix)


def are_of_one_file(config: JobConfig, key: str, right: str) -> bool:
    """Whether the file that sets a key sets another, too, or chooses an option for it: who writes both means both."""
    history, path = provenance(config).history, tuple(right.split("."))
    own = history.get(tuple(key.split(".")), [])
    others = [settings[-1] for each, settings in history.items() if each[: len(path)] == path]
    return bool(own) and any(each.file == own[-1].file or each.parent == own[-1].option for each in others)


def logger(name: str) -> Job:
    node = f"{{_target_: pytorch_lightning.loggers.TensorBoardLogger, save_dir: logs, {name}: false}}"
    return Job((f"+logger.events={node}",))


def beside_the_right_name(*overrides: str, in_file: str = "") -> Job:
    option = f"_target_: pytorch_lightning.loggers.TensorBoardLogger\nsave_dir: logs\nsub_dir: a\n{in_file}"
    return Job(overrides, {"conf/logger_/events.yaml": option}, ("_self_", "logger_@logger.events: events"))


def beside_a_group() -> Job:
    """Name the option of a group, whose name is nearly that of another key."""
    option = f"_target_: {__name__}.Kept\ndefaults: [transforms: flips]\ntransform: null\n"
    files = {"conf/data/circles.yaml": option, "conf/data/transforms/flips.yaml": "degrees: 10\n"}
    return Job(files=files, defaults=("_self_", "data: circles"))


class Kept:
    def __init__(self, transforms: object = None, **others: object) -> None:
        self.transforms, self.others = transforms, others


PROBE = Probe(
    question="Are the keys that a _target_ takes by **kwargs something else than misspelt parameters of it?",
    why="`**kwargs` takes it, and the argument stays as it is",
    severity=WARNING,
    fix=Fix("correct the name"),
    detect=detect,
    thresholds={
        "min_likeness": Threshold(
            0.85,
            "of two names, as difflib's ratio: of the arguments of Trainer, DataLoader and all classes of torch.nn and "
            "torch.optim, 91 % of random misspellings by one letter are recognised so, and 5 of 2183 pairs of "
            "different arguments are taken for one; at 0.8 these are 97 % and 14",
            factor=1.1,
        )
    },
    faulty=logger("subdir"),
    also_faulty=(beside_the_right_name("+logger.events.subdir=b"),),
    healthy=logger("log_grad"),
    also_healthy=(beside_the_right_name(in_file="subdirs: b\n"), beside_a_group()),
)
