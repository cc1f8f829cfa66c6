"""What a saved config may build that comes with the directory of a run: for `eval.py run=`, `resume=`, `rerun=`.

A directory may come from anybody, and its config would call whatever it names. So it may name what this project's own
configs and this command name, and beyond that the parts that training is made of: classes of networks, criteria,
optimizers, schedules, metrics, callbacks and Trainers, from the packages that have them. Anything else has to be
allowed on the command line, by name.
"""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError
from omegaconf.grammar_parser import OmegaConfGrammarParser, parse
from training_config.errors import ConfigError
from training_config.secret_values import REFERENCE, names_secret, reference
from training_config.targets import locate, targets
from training_config.walk import flat, value_of
from training_config.yaml_files import read_plain

# Where those parts are. Of torchmetrics not what fetches the weights of a network that it measures with (image, text,
# multimodal, audio); of torchvision no data sets, which read and download.
LIBRARIES = (
    "torch.nn",
    "torch.optim",
    "torchvision.models",
    "torchvision.ops",
    "torchvision.transforms",
    *(
        f"torchmetrics.{part}"
        for part in (
            "aggregation",
            "classification",
            "clustering",
            "collections",
            "regression",
            "retrieval",
            "wrappers",
        )
    ),
    "pytorch_lightning",
    "lightning.pytorch",
)
# They compute names, times and choices; others make configs out of text (oc.create, oc.decode) or read elsewhere.
RESOLVERS = {"hydra", "now", "oc.select", "oc.dict.keys", "oc.dict.values"}


@dataclass
class Named:
    """What configs name: targets, resolvers, and variables of the environment."""

    targets: set[str] = field(default_factory=set)
    resolvers: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)

    def add(self, content: Any) -> None:
        for key, value in flat(content):
            if isinstance(value, str):
                if key.rpartition(".")[2] == "_target_":
                    self.targets.add(value)
                for name, variable in resolvers_of(value):
                    self.resolvers |= {name} - {"oc.env"}
                    self.variables |= {variable} if name == "oc.env" else set()


def check_trusted(saved: DictConfig, run: Path, cfg: DictConfig) -> None:
    """Refuse a saved config that names what neither this project nor `cfg.allow` does.

    Args:
        saved: of which nothing has been resolved or imported yet.
        run: where it comes from.
        cfg: what this command composed.

    Raises:
        ConfigError: with everything that it names, and what to add to the command.
    """
    named = named_here(cfg)
    given = cfg.get("allow") or ()
    allowed = [given] if isinstance(given, str) else list(given)
    foreign: dict[str, str] = {}
    for key, value in flat(OmegaConf.to_container(saved, resolve=False)):
        for name in untrusted_resolvers(value, key, named) if isinstance(value, str) else ():
            if not is_allowed(name, allowed):
                foreign[f"{key}={value}"] = name
    for key, node in targets(saved) if not foreign else ():  # an interpolation may lead to a target
        name = value_of(node, "_target_")
        if isinstance(name, str) and not is_allowed(name, allowed) and not is_trusted(name, node, named):
            foreign[f"{key}._target_={name}"] = name
    if foreign:
        raise ConfigError(
            f"{run}: its config names what no config of this project does: {', '.join(foreign)}; if you trust where "
            f"the run comes from, say so with 'allow=[{','.join(dict.fromkeys(foreign.values()))}]'"
        )


def named_here(cfg: DictConfig) -> Named:
    """Return what the project's config files name, and what this command does."""
    named = Named()
    named.add(OmegaConf.to_container(cfg, resolve=False))
    if HydraConfig.initialized():
        for source in HydraConfig.instance().cfg.hydra.runtime.config_sources:
            if source.provider in ("main", "command-line") and source.schema == "file":
                for path in Path(source.path).rglob("*.yaml"):
                    with suppress(OSError, ValueError, RecursionError, yaml.YAMLError):  # Hydra says so if it is used
                        named.add(read_plain(path))
    return named


def is_allowed(name: str, allowed: Iterable[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def is_trusted(name: str, node: DictConfig, named: Named) -> bool:
    """Whether a target may be built with the arguments of `node`. It is imported only from packages that are known."""
    if name in named.targets:
        return True
    own = {target.partition(".")[0] for target in named.targets} - {"torch", "torchvision", "torchmetrics"}
    homes = (*LIBRARIES, *sorted(own), "training_runs")
    # torchmetrics has its classes at the top too; where they really are is asked below.
    if not is_allowed(name, (*homes, "torchmetrics")):
        return False
    try:
        target = locate(name)
    except ImportError:
        return True  # nothing is built; the check of the config says what is missing
    home = getattr(target, "__module__", None) or ""
    if not is_allowed(home, homes):
        return False
    if inspect.isfunction(target):
        return is_allowed(home, ["torchvision.models"]) and loads_nothing(target, node)
    return isinstance(target, type) and issubclass(target, parts_of_training())


def parts_of_training() -> tuple[type, ...]:
    """Return the kinds of classes whose constructors neither read nor write; those of loggers do, and are not here."""
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import Strategy
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    return nn.Module, Optimizer, LRScheduler, pl.Trainer, pl.Callback, pl.LightningDataModule, Strategy


def loads_nothing(function: Any, node: DictConfig) -> bool:
    """Whether torchvision builds a network with these arguments without fetching weights for it."""
    weights = {name: value.default for name, value in inspect.signature(function).parameters.items()}
    weights = {name: value for name, value in weights.items() if name.startswith(("weights", "pretrained"))}
    given = OmegaConf.to_container(node, resolve=False)
    told = {name: value for name, value in given.items() if str(name).startswith(("weights", "pretrained"))}
    return not node.get("_args_") and all(value in (None, False) for value in (weights | told).values())


def untrusted_resolvers(text: str, key: str, named: Named) -> Iterator[str]:
    """Yield the resolvers that a text asks for and nobody here does; of oc.env only for variables of others.

    A secret may come from where secrets are: from a variable with a telling name, to a key with such a name.
    """
    of_a_secret = names_secret(key) and REFERENCE.fullmatch(text) is not None
    for name, variable in resolvers_of(text):
        if name == "oc.env":
            own = "${oc.env:" + variable + "}" == reference(key) or (of_a_secret and names_secret(variable))
            if variable not in named.variables and not own:
                yield name
        elif name not in RESOLVERS | named.resolvers:
            yield name


def resolvers_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, first argument) of every resolver in a text, those within others included."""
    if "${" not in text or ":" not in text:
        return
    try:
        pending = [parse(text)]
    except GrammarParseError:  # the check of the config says so
        return
    while pending:
        node = pending.pop()
        if isinstance(node, OmegaConfGrammarParser.InterpolationResolverContext):
            arguments = node.sequence()
            first = "" if arguments is None else arguments.getChild(0).getText()
            yield node.resolverName().getText(), first.strip().strip("'\"")
        pending.extend(node.getChild(place) for place in range(node.getChildCount()))  # a leaf has none
