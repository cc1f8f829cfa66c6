import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch.optim import Optimizer
from training_config.walk import value_of, walk

from training_checklist.instruments import (
    Example,
    JobConfig,
    LightningDataModule,
    Small,
    Stages,
    is_own,
    is_own_class,
    loader,
    of_function,
    own_config,
    source_tree,
    sources,
    splits,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe

WHOLE = {"locals", "vars", "save_hyperparameters", "exec", "eval"}  # what reads every argument by no name

RATE = ("lr", "learning_rate")

CONFIGS = {"cfg", "config", "conf", "args", "hparams", "opt"}  # given whole to whichever class of a kind is chosen


def detect(stages: Stages, limits: Limits) -> Hits:
    found = [*without_effect(stages)]
    config = own_config() if found else None
    job = None if config is None else JobConfig(config)
    is_null: dict[str, bool] = {}  # by keys of the config, whether each of that name is: then nobody expects anything
    for name, null in keys(config):
        is_null[name] = null and is_null.get(name, True)
    for kind, parameter, hit in found:
        name, has_default = parameter.name, parameter.default is not parameter.empty
        if is_null.get(name, False) or (has_default and (name not in is_null or is_left_out(job, kind, name))):
            continue
        if not others_refer(job, kind, parameter):
            yield hit


def is_left_out(job: JobConfig, kind: type, argument: str) -> bool:
    """Whether some nodes of the config, or calls in code, make a class, and none of them gives it an argument."""
    makers = {each.__name__ for each in with_subclasses(kind)}
    nodes = [node for _, node, key in walk(job.job) if key == "_target_" and makes(node, makers)]
    seen = chain.from_iterable(ast.walk(source_tree(file)) for file in own_files())
    calls = [node for node in seen if isinstance(node, ast.Call) and last_name(node.func) in makers]
    # A class that derives from it may hand an argument on, and so may a call of `instantiate`.
    if not (nodes or calls) or len(makers) > 1 or job.code.supplies or argument in job.code.supplied:
        return False
    position = list(inspect.signature(kind.__init__).parameters).index(argument) - 1
    return not any(argument in node for node in nodes) and not any(passes(call, position, argument) for call in calls)


def makes(node: Any, makers: set[str]) -> bool:
    """Whether a node of the config makes one of some classes."""
    return str(value_of(node, "_target_")).rpartition(".")[2] in makers


def passes(call: ast.Call, position: int, argument: str) -> bool:
    """Whether a call gives an argument, by its position or name, or may do so."""
    several = any(isinstance(each, ast.Starred) for each in call.args)
    return several or len(call.args) > position or any(each.arg in (None, argument) for each in call.keywords)


def others_refer(job: JobConfig | None, kind: type, parameter: inspect.Parameter) -> bool:
    """Whether an interpolation of the config, or code, reads the key that gives a class this argument.

    Code may get the node by its name, as a network does that is given `datamodule=cfg.datamodule` and reads
    `datamodule.width`, or under one that has the node's in it: `model_config["name"]`.
    """
    if job is None:
        return False
    makers = {each.__name__ for each in with_subclasses(kind)}

    def is_read(full_key: str) -> bool:
        node = full_key.split(".")[-2:-1]
        names = [name for name, attribute in job.code.pairs if attribute == parameter.name]
        read = {*names, *chain.from_iterable(name.split("_") for name in names)}
        return job.is_referred_to(full_key) or not read.isdisjoint(node)

    return any(
        key == parameter.name and makes(node, makers) and is_read(full_key)
        for full_key, node, key in walk(job.job)
        if OmegaConf.is_dict(node)
    )


def with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    for other in kind.__subclasses__():
        yield from with_subclasses(other)


def without_effect(stages: Stages) -> Iterator[tuple[type, inspect.Parameter, Hit]]:
    files, kinds = own_files(), [*own_classes(stages)]
    yield from saved_for_nothing(stages, files)
    for kind in kinds:
        for parameter, attribute in unread(kind):
            what = f"{kind.__name__} is given {parameter.name}"
            if any(uses_itself(other, parameter.name) for other in kinds if kind in other.__mro__[1:]):
                continue
            others = others_with(parameter.name, kinds, kind)
            if others and any(shares_a_dict(file, kind.__name__, others) for file in files):
                continue
            if any(is_one_of_a_table(file, kind.__name__, parameter.name) for file in files):
                continue
            if not attribute:
                yield kind, parameter, Hit(f"{what}, and does not read it", of_function(kind.__init__))
            elif not of_library(kind, attribute) and not any(reads(file, attribute) for file in files):
                what = f"{what} and keeps it as self.{attribute}, which no code reads"
                yield kind, parameter, Hit(what, of_function(kind.__init__))


def saved_for_nothing(stages: Stages, files: set[str]) -> Iterator[tuple[type, inspect.Parameter, Hit]]:
    """Yield what a module saves as a hyperparameter of its optimizer, which has another value, and no code reads.

    Of others nobody knows: a hyperparameter may be saved to be logged.
    """
    module, kind = stages.pl_module, type(stages.pl_module)
    optimizing = next(each for each in kind.__mro__ if "configure_optimizers" in vars(each))
    if not is_own_class(optimizing) or not inspect.isfunction(vars(kind).get("__init__")):
        return
    nodes = [*ast.walk(definition(inspect.unwrap(kind.__init__)))]
    for optimizer in module.trainer.optimizers if called_in(nodes) & WHOLE == {"save_hyperparameters"} else ():
        for setting, values in settings_of(optimizer).items():
            for name in RATE if setting == "lr" else (setting,):
                parameter = inspect.signature(kind.__init__).parameters.get(name)
                if parameter is None or module.hparams.get(name) in (None, *values) or times_read(nodes, name):
                    continue
                if not any(may_read_hyperparameter(file, name) for file in files):
                    what = f"{kind.__name__} saves {name}={module.hparams[name]}, which no code reads"
                    used = ", ".join(f"{value:g}" if isinstance(value, float) else f"{value}" for value in values)
                    hit = Hit(f"{what}: {type(optimizer).__name__} has {setting}={used}", of_function(kind.__init__))
                    yield kind, parameter, hit


def settings_of(optimizer: Optimizer) -> dict[str, list[Any]]:
    """Return the values that an optimizer's settings have and began with, in any of its groups."""
    groups = [optimizer.defaults, *optimizer.param_groups]
    began = [{"lr": group["initial_lr"]} for group in groups if "initial_lr" in group]
    names = [name for name in optimizer.defaults if isinstance(optimizer.defaults[name], (int, float, tuple))]
    return {name: list(dict.fromkeys(each[name] for each in (*began, *groups) if name in each)) for name in names}


def may_read_hyperparameter(file: str, name: str) -> bool:
    """Whether a file may: as an attribute, by its name, or where it hands all hyperparameters on."""
    tree = source_tree(file)
    parts = [node.value for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Subscript))]
    known = {id(part) for part in parts}
    return any(
        (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr == name)
        or (isinstance(node, ast.Constant) and node.value == name)
        or (isinstance(node, ast.Attribute) and node.attr == "hparams" and id(node) not in known)
        for node in ast.walk(tree)
    )


def own_classes(stages: Stages) -> Iterator[type]:
    """Yield the project's own classes, with an __init__ each, of what the run is made of."""
    trainer = stages.pl_module.trainer
    datasets = [split.dataset for split in splits("train", trainer.train_dataloader)]
    things = [trainer, *stages.pl_module.modules(), *stages.end_of_training, *datasets]
    for kind in dict.fromkeys(kind for thing in things for kind in type(thing).__mro__):
        if is_own_class(kind) and inspect.isfunction(vars(kind).get("__init__")):
            yield kind


def unread(kind: type) -> Iterator[tuple[inspect.Parameter, str]]:
    """Yield (parameter, "" or the attribute that it is put into and no more) of an __init__."""
    function = inspect.unwrap(kind.__init__)
    nodes = list(ast.walk(definition(function)))
    used = [node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)]
    called = called_in(nodes)
    if not called or called & WHOLE:  # an __init__ that calls nothing makes nothing: an interface, or plain data
        return
    bases = [each for each in kind.__mro__[1:] if is_own_class(each) and inspect.isfunction(vars(each).get("__init__"))]
    saved = (called_in([*ast.walk(definition(inspect.unwrap(each.__init__)))]) for each in bases)
    if any("save_hyperparameters" in each for each in saved):  # of classes that derive from it, too
        return
    kept = dict(chain.from_iterable(into_attributes(node) for node in nodes if isinstance(node, ast.Assign)))
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        varies = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if varies or name.startswith("_") or name in CONFIGS:
            continue
        if name not in used:
            yield parameter, ""
        elif used.count(name) == 1 and name in kept:
            yield parameter, kept[name]


def others_with(argument: str, kinds: list[type], kind: type) -> set[str]:
    """Return the names of the other classes whose __init__ reads an argument of this name."""
    return {each.__name__ for each in kinds if each is not kind and uses(each, argument)}


def shares_a_dict(file: str, name: str, others: set[str]) -> bool:
    """Whether one dict is given to this class and to others that read more of it: `A(**options)` and `B(**options)`."""
    calls = [node for node in ast.walk(source_tree(file)) if isinstance(node, ast.Call)]
    splats = {
        (last_name(call.func), ast.unparse(each.value)) for call in calls for each in call.keywords if each.arg is None
    }
    own = {given for called, given in splats if called == name}
    return any(called in others and given in own for called, given in splats)


def is_one_of_a_table(file: str, name: str, argument: str) -> bool:
    """Whether a class stands in a table of classes that are built alike, of which another one reads the argument."""
    nodes = [node for node in ast.walk(source_tree(file)) if isinstance(node, ast.Dict)]
    tables = [{last_name(each) for each in node.values} for node in nodes]
    others = set().union(*(table for table in tables if name in table)) - {name}
    modules = [each for each in [*sys.modules.values()] if others and getattr(each, "__file__", None) == file]
    found = [getattr(module, other, None) for module in modules for other in others]
    return any(isinstance(each, type) and is_own_class(each) and uses(each, argument) for each in found)


def uses_itself(kind: type, name: str) -> bool:
    """Whether an __init__ does more with an argument than to hand it on to the class that it derives from."""
    nodes = [*ast.walk(definition(inspect.unwrap(kind.__init__)))]
    read = times_read(nodes, name)
    return read > 1 or (read == 1 and not called_in(nodes).isdisjoint(WHOLE))


def uses(kind: type, name: str) -> bool:
    """Whether an __init__ has an argument of this name, and reads it."""
    function = inspect.unwrap(kind.__init__)
    return name in inspect.signature(function).parameters and times_read([*ast.walk(definition(function))], name) > 0


def times_read(nodes: list[ast.AST], name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in nodes)


def called_in(nodes: list[ast.AST]) -> set[str]:
    return {last_name(node.func) for node in nodes if isinstance(node, ast.Call)}


def last_name(node: ast.AST) -> str:
    """Return c of `c` and `a.b.c`, "" of anything else."""
    return getattr(node, "id", getattr(node, "attr", ""))


def definition(function: Any) -> ast.AST:
    """Return the syntax tree of a function.

    Raises:
        CannotJudge: its source is not there.
    """
    first = function.__code__.co_firstlineno
    for node in ast.walk(source_tree(function.__code__.co_filename)):
        if isinstance(node, ast.FunctionDef) and first == min(each.lineno for each in (node, *node.decorator_list)):
            return node
    raise CannotJudge(f"the source of {function.__qualname__} is not there")


def into_attributes(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """Yield (name, attribute) of `self.attribute = name`, and of several of them in one assignment."""
    target, value = node.targets[0], node.value
    several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    for left, right in zip(target.elts, value.elts, strict=False) if several else [(target, value)]:
        if isinstance(left, ast.Attribute) and isinstance(right, ast.Name):
            yield right.id, left.attr


def reads(file: str, attribute: str) -> bool:
    """Whether a file reads an attribute, or has its name in a string, by which it may be got."""
    if attribute not in Path(file).read_text(errors="replace"):
        return False
    nodes = list(ast.walk(source_tree(file)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return any(
        (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr == attribute)
        or (isinstance(node, ast.Constant) and id(node) not in docstrings and attribute in str(node.value))
        for node in nodes
    )


def own_files() -> set[str]:
    """Return the project's files: those that are loaded, and those below the working directory."""
    loaded = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    files = {str(file) for file in (*loaded, *(sources(Path.cwd()) or ()))}
    # Not every module's __file__ is there: torch._ops has a name without a folder.
    return {file for file in files if file.endswith(".py") and is_own(file) and Path(file).is_file()}


def of_library(kind: type, attribute: str) -> bool:
    """Whether a class of a library, from which this one derives, has the attribute, sets it or reads it."""
    others = [each for each in kind.__mro__[:-1] if not is_own_class(each)]
    files = {getattr(sys.modules.get(each.__module__), "__file__", None) for each in others}
    codes = [getattr(vars(each).get("__init__"), "__code__", None) for each in others]
    if any(code is not None and attribute in code.co_names for code in codes):
        return True
    return any(hasattr(each, attribute) for each in others) or any(reads(file, attribute) for file in files if file)


def keys(config: Any) -> Iterator[tuple[str, bool]]:
    """Yield the names of all nodes of a config, with whether they are null."""
    for key in config if hasattr(config, "keys") else ():
        node = config._get_node(key)
        yield str(key), node._is_none()
        yield from keys(node)


class Scaled(Small):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def loss(self, answers: Any, labels: Any) -> Any:
        return self.factor * super().loss(answers, labels)


class Unscaled(Small):
    def __init__(self, factor: float) -> None:
        super().__init__()


class Chosen(Small):
    """Is given the whole config, as others are that a project chooses from."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()


class Described(Scaled):
    """Its head is given what describes the whole, and reads a part of it."""

    def __init__(self, factor: float) -> None:
        super().__init__(factor)
        options = {"width": 8, "depth": 2}
        self.whole, self.part = Body(**options), Head(**options)


class Saving(Small):
    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters()


class Saved(Small):
    """Gives its optimizer a half of what it saves."""

    def __init__(self, dampening: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.half = dampening / 2

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01, momentum=0.9, dampening=self.half)


class SavedBelow(Saving):
    """What it is given is saved by the class that it derives from."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.more = torch.nn.Identity()

    def loss(self, answers: Any, labels: Any) -> Any:
        return self.hparams["factor"] * super().loss(answers, labels)


class Body(torch.nn.Linear):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, width * depth)


class Head(torch.nn.Linear):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, width)


BODIES = {"deep": Body, "flat": Head}


class OfATable(Small):
    """Chooses its body from those that are built alike."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.body = BODIES[body](8, 2)


class PreparedOnce(LightningDataModule):
    """Sets what Lightning reads of it."""

    def __init__(self, prepare_data_per_node: bool) -> None:
        super().__init__()
        self.prepare_data_per_node = prepare_data_per_node

    train_dataloader = val_dataloader = staticmethod(loader)


PROBE = Probe(
    question="Is every constructor argument of the project's classes read by some code?",
    why="whoever gives it, in the config or in code, believes in a value that nothing uses",
    severity=WARNING,
    may_be_wrong="an argument that is kept for checkpoints of an older version is not read",
    fix=Fix("use it, pass it on where it was meant for (super().__init__, a loader, a layer), or take it out"),
    detect=detect,
    faulty=Example(lambda: Unscaled(0.5)),
    healthy=Example(lambda: Scaled(0.5)),
    also_healthy=(
        Example(lambda: SavedBelow(0.5)),
        Example(lambda: Saved(0.5)),
        Example(lambda: Described(0.5)),
        Example(lambda: Chosen({})),
        Example(lambda: OfATable("flat")),
        Example(Small, lambda: PreparedOnce(False)),
    ),
)
