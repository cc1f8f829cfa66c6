import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from training_config.targets import HYDRA_KEYS
from training_config.walk import value_of, walk

from training_checklist.instruments import (
    FILES,
    Job,
    JobConfig,
    Stages,
    as_written,
    is_own_class,
    own_config,
    shown,
    source,
    targets,
    unread_keys,
)
from training_checklist.probe import REMARK, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe

VALUE = re.compile(r"""[:,\[-] *['"]?(\w+)['"]? *(?=[,\]}#\n]|$)""")
SWITCH = re.compile("(is_)?(enabled?|active|used?|on)")


def detect(stages: Stages, limits: Limits) -> Hits:
    config = own_config()
    if config is None or not stages.config_reads:
        raise CannotJudge("the program reads no config that Hydra has composed for it")
    job = JobConfig(config)
    code = source(job)
    read = {ending for key in stages.config_reads for ending in endings(key)}
    known = unread_keys(job)  # that is config/unread-key
    found = [key for key in unread(job, job.job, "", read, stages.config_reads) if key not in known]
    named = code.reached | values_of_files(job) if found else set()
    nodes: dict[str, list[str]] = {}
    for full_key in found:
        parent, _, name = full_key.rpartition(".")
        if name not in named and not is_of_menu(job, full_key, read, code.reached):
            nodes.setdefault(parent, []).append(name)
    for parent, names in nodes.items():
        keys, quoted = [f"{parent}.{name}" for name in names], shown(map(repr, names))
        what = f"the program has come to its end without reading {shown(keys)}, and no code asks a config for {quoted}"
        off = tuple(f"~{key}" for key in keys) if len(keys) == 1 else ()
        node = OmegaConf.select(job.job, parent)
        sets_nothing = all(as_written(node, name).startswith("${") for name in names)  # as templates name folders
        severity = REMARK if sets_nothing else None
        yield Hit(what, job.place(keys[0]), fix=Fix(f"pass {shown(keys)} on to what takes it", off), severity=severity)


def endings(key: str) -> Iterator[str]:
    """Yield a.b.c, b.c and c of the first: a part of a config may have become one of its own."""
    parts = key.split(".")
    return (".".join(parts[at:]) for at in range(len(parts)))


def unread(job: JobConfig, node: DictConfig, prefix: str, read: set[str], whole: Collection[str]) -> Iterator[str]:
    """Yield those keys that were not read, of nodes of which others were: of `whole`, with the ends `read`."""
    keys = [str(key) for key in node if key not in HYDRA_KEYS]
    # Of two nodes with a key of one name, what was read of one says nothing of the other.
    others_are = bool(prefix) and any(each in whole for key in keys for each in endings(f"{prefix}{key}"))
    others_are &= not any(is_switched_off(node, key) for key in keys)
    for key in keys:
        full_key, child = f"{prefix}{key}", node._get_node(key)
        if job.is_of_debug(full_key) or is_given_to_library(job, full_key):
            continue
        is_referred_to = any(other == full_key or other.startswith(f"{full_key}.") for other in job.references)
        if is_referred_to or not read.isdisjoint(endings(full_key)):
            others_are_built = bool(prefix) and any(map(has_target, map(node._get_node, keys)))
            if is_mapping(child) and ("_target_" in child or not others_are_built):
                yield from unread(job, child, f"{full_key}.", read, whole)
        elif others_are:
            yield full_key


def values_of_files(job: JobConfig) -> set[str]:
    """Return the words that are values in some file of the config, chosen or not: `evaluate_on: test` may be read."""
    folders = [Path(each.path) for each in job.config.hydra.runtime.config_sources if each.schema == "file"]
    paths = (path for folder in folders for path in folder.rglob("*.yaml") if path.is_file())
    return {word for path in paths for word in VALUE.findall(path.read_text(errors="replace"))}


def is_given_to_library(job: JobConfig, full_key: str) -> bool:
    """Whether an argument of a library's class is what holds a key: `tags: ${experiment.tags}` of a logger."""
    for target in targets(job):
        is_own = target.found is None or is_own_class(target.found)
        texts = () if is_own else [as_written(target.node, key) for key in target.node]
        if any(text.startswith("${") and full_key.startswith(f"{text[2:-1]}.") for text in texts):
            return True
    return False


def is_switched_off(node: DictConfig, key: str) -> bool:
    """Whether a key switches its part of the config off, as `enabled: false` does."""
    return SWITCH.fullmatch(key) is not None and value_of(node, key) is False


def is_mapping(node: Any) -> bool:
    return OmegaConf.is_dict(node) and not node._is_none() and not node._is_missing()


def has_target(node: Any) -> bool:
    """Whether a node is built; beside such ones, a mapping without a target is of one that is not chosen."""
    return is_mapping(node) and "_target_" in node


def is_of_menu(job: JobConfig, full_key: str, read: set[str], reached: Collection[str]) -> bool:
    """Whether what stands beside a key is chosen by names that stand in no code: of a list or key of the config."""
    parent = full_key.rpartition(".")[0]
    node = OmegaConf.select(job.job, parent)
    built = [str(key) for key in node if has_target(node._get_node(key))]
    chosen = [str(key) for key in node if key not in reached and not read.isdisjoint(endings(f"{parent}.{key}"))]
    if full_key.rpartition(".")[2] in built:
        return not set(chosen).isdisjoint(built)
    return any(value_of(owner, name) in chosen for _, owner, name in walk(job.job))


def of_one_name() -> Job:
    """Return a program that reads one of two nodes, which have a key in common."""
    code = FILES["train.py"].replace("    trainer.fit", "    print(cfg.one.rate)\n    trainer.fit", 1)
    return Job(("+one={rate: 1}", "+other={rate: 2, layers: 3}"), {"train.py": code})


def passing(arguments: str) -> Job:
    """Return a program that builds a layer by hand, of a config that says its width, and whether it has a bias."""
    code = FILES["train.py"]
    made = f"    module.layer = layer({arguments})\n    trainer.fit"
    code = code.replace("    trainer.fit", made, 1)
    code = code.replace("@hydra", "def layer(width, bias=True):\n    return Linear(width, width, bias)\n\n\n@hydra", 1)
    code = code.replace("import hydra\n", "import hydra\nfrom torch.nn import Linear\n", 1)
    return Job(("+net={width: 8, bias: false}",), {"train.py": code})


def switched(enabled: str) -> Job:
    """Return a program that makes something of a part of its config where that is switched on."""
    asked = "    print(stops(cfg.early.patience) if cfg.early.enabled else None)\n    trainer.fit"
    code = FILES["train.py"].replace("    trainer.fit", asked, 1)
    code = code.replace("@hydra", "def stops(patience, gain=0.1):\n    return patience, gain\n\n\n@hydra", 1)
    return Job((f"+early={{enabled: {enabled}, gain: 0.2, patience: 3}}",), {"train.py": code})


def handed_on(keys: str) -> Job:
    """Return a program in which Hydra hands a part of the config on, as it is, to what reads some of its keys."""
    code = FILES["train.py"].replace("    trainer.fit", "    instantiate(cfg.net)\n    trainer.fit", 1)
    sized = f"class Sized:\n    def __init__(self, sizes):\n        self.sizes = [{keys}]\n\n\n"
    code = code.replace("@hydra", f"{sized}@hydra", 1)
    given = ("+net={_target_: __main__.Sized, sizes: ${sizes}}", "+sizes={width: 8, halfwidth: 2}")
    return Job(given, {"train.py": code})


def tagged() -> Job:
    """Return a program that gives a library a part of the config as it is, and reads one key of that itself."""
    code = "    print(cfg.experiment.tags.task, instantiate(cfg.noted))\n    trainer.fit"
    given = (
        "+experiment={tags: {task: digits, owner: me}}",
        "+noted={_target_: builtins.dict, tags: ${experiment.tags}}",
    )
    return Job(given, {"train.py": FILES["train.py"].replace("    trainer.fit", code, 1)})


def not_chosen() -> Job:
    """Return a program that builds each logger that has a target, of two; of the second, all keys stand there."""
    loggers = "    print(cfg.name, [instantiate(each) for each in cfg.logging.values() if '_target_' in each])\n"
    code = FILES["train.py"].replace("    trainer.fit", f"{loggers}    trainer.fit", 1)
    given = ("+name=run", "+logging.csv={_target_: builtins.dict, folder: logs}")
    return Job((*given, "+logging.other={name: ${name}, folder: logs, owner: me}"), {"train.py": code})


def ordered(order: str, code: str) -> Job:
    """Return a program of two transforms, of which it builds those that a list names, or one by name."""
    built = FILES["train.py"].replace("    trainer.fit", f"    print({code})\n    trainer.fit", 1)
    built = built.replace("@hydra", "blurred = None\n\n\n@hydra", 1)  # a name, by which no key is got
    given = "+steps={blurred: {_target_: builtins.dict, by: 3}, turned: {_target_: builtins.dict, by: 90}}"
    return Job((given, f"+order={order}"), {"train.py": built})


def chosen_elsewhere() -> Job:
    """Return a program that reads one of two parts; an option that is not chosen now names the other."""
    code = FILES["train.py"].replace("    trainer.fit", "    print(cfg.sets.train_now)\n    trainer.fit", 1)
    option = {"conf/scores/accuracy.yaml": "evaluate_on: test_later\n"}
    return Job(("+sets={train_now: 1, test_later: 2}",), {"train.py": code, **option})


def of_a_table() -> Job:
    """Return a program that reads one number of a table, by a name that another key has."""
    code = FILES["train.py"].replace("    trainer.fit", "    print(cfg.net.width[cfg.net.size])\n    trainer.fit", 1)
    return Job(("+net={width: {little: 16, much: 64}, size: little}",), {"train.py": code})


PROBE = Probe(
    question="Does the program read every key of the parts of its config that it takes key by key?",
    why="whatever it is set to changes nothing",
    severity=WARNING,
    may_be_wrong="a key that the code reads under a name which it puts together, and not in this run",
    fix=Fix("pass it on to what takes it, or take it out"),
    detect=detect,
    faulty=passing("cfg.net.width"),
    also_faulty=(
        handed_on("sizes.width, sizes.get('half_width', 0)"),
        switched("true"),
        ordered("[]", "cfg.order, instantiate(cfg.steps.turned)"),
    ),
    healthy=passing("cfg.net.width, cfg.net.bias"),
    also_healthy=(
        tagged(),
        not_chosen(),
        of_a_table(),
        chosen_elsewhere(),
        of_one_name(),
        switched("false"),
        passing("**cfg.net"),
        handed_on("sizes[each] for each in sizes"),
        ordered("[turned]", "[instantiate(cfg.steps.get(each)) for each in cfg.order]"),
    ),
)
