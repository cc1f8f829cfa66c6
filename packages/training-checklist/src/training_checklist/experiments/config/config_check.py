"""Where each value of the config comes from, and what in it cannot work; nothing is trained."""

import copy
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import version
from inspect import Parameter
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException, UnsupportedInterpolationType
from rich.console import Console
from rich.text import Text
from training_config.provenance import COMMAND_LINE, Provenance, Setting, leaves, trace_config
from training_config.secret_values import redact_text, secret_values
from training_config.targets import HYDRA_KEYS, annotations_of, locate, parameters_of, takes_any
from training_config.walk import UNKNOWN, is_missing, value_of, walk

from training_checklist import session
from training_checklist.direction import better
from training_checklist.ending import launched_rank
from training_checklist.engines.own_code import is_installed
from training_checklist.evidence.config_values import (
    Argument,
    BatchLimit,
    BeatenValue,
    Leftover,
    MisplacedFile,
    MissingValue,
    Monitor,
    NoneText,
    SavingInterval,
    Target,
    UnreadKey,
    Unresolved,
    ValidationEpochs,
    ValidationInterval,
)
from training_checklist.experiments.config.arguments import (
    EXPONENT,
    absent_arguments,
    misfit,
    splatted,
    unknown_arguments,
)
from training_checklist.experiments.config.code_reads import read_code
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import Place, Verdict
from training_checklist.group import groups
from training_checklist.lightning import Callback as LightningCallback
from training_checklist.lightning import LightningModule, ModelCheckpoint
from training_checklist.settings import KEY

LIGHTNING = ("pytorch_lightning", "lightning.pytorch")
ENTRIES = ("fit", "validate", "test", "predict")
ALWAYS_LOGGED = {"epoch", "step"}  # a checkpoint may look at them without anyone logging them
LIGHTNING_NAMES = {"experiment"}  # attributes of Lightning's own objects, such as logger.experiment
# Of two names, from which on one is taken for a misspelling of the other. Of the arguments of Trainer, DataLoader and
# all classes of torch.nn and torch.optim, 91 % of random misspellings by one letter are recognised so, and 5 of 2183
# pairs of different arguments are taken for one; at 0.8 these are 97 % and 14.
ALIKE = 0.85
# What is looked for in every config: where there is none of it, that is what the rules pass.
LOOKED_FOR = (MissingValue(""), Unresolved("", "", ""), NoneText(""), BatchLimit(""), Leftover(""))
# Settings of the Trainer for a look at a few batches, and what they make of a training.
LEFTOVERS = {
    "overfit_batches": "trains on the same few batches again and again, and validates on them",
    "fast_dev_run": "runs a few batches of each split, and keeps no checkpoint",
    "detect_anomaly": "looks for NaN after each operation of backward, which takes several times as long",
    "limit_train_batches": "trains on a part of the data",
    "limit_val_batches": "validates on next to nothing",
    "limit_test_batches": "tests on next to nothing",
}
FEW_BATCHES = 5  # of held-out samples, from none on: Lightning's own look before training takes 2
# In the name of a file, these say that it is for such a look.
TRIALS = re.compile(r"debug|smoke|quick|fast|tiny|demo|dev|test|profil|anomaly|overfit")
DOTTED = re.compile(r"[A-Za-z_][\w.]*")


class ConfigWatch(Callback):
    """Judges a job's config before anything is built from it; where no other item is on, the Trainer does nothing.

    Args:
        all: whether to show where every key was set, and not only those set by the command line or in two files.
    """

    def __init__(self, all: bool) -> None:
        self.all = all

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.check = ConfigCheck(self.all)
        session.add(self.check)
        self.idle = IdleTrainer()
        self.alone = list(config.hydra.callbacks.debug["items"]) == [ConfigCheck.item]
        try:
            self.check.examine(config)
        except Exception as error:  # Hydra would make a warning of it, and the item would seem to have passed
            self.check.fail_itself(error, ConfigCheck.item)
        if self.alone:
            self.idle.__enter__()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if not self.alone:
            return
        self.idle.__exit__()
        # After a Trainer that did nothing, scripts stumble over metrics and checkpoints that are not there.
        if job_return.status == JobStatus.FAILED and (self.idle.asked or self.check.foretold(job_return._return_value)):
            job_return.status, job_return.return_value = JobStatus.COMPLETED, None


class IdleTrainer:
    """While it is entered, fit, validate, test and predict of every Trainer return at once; no data is prepared."""

    def __init__(self) -> None:
        self.asked = False
        self._entries: list[tuple[type, str, Any]] = []

    def __enter__(self) -> None:
        for name in LIGHTNING:
            trainer = getattr(sys.modules.get(name), "Trainer", None)
            for entry in ENTRIES if trainer is not None else ():
                self._entries.append((trainer, entry, getattr(trainer, entry)))
                setattr(trainer, entry, self._ask)

    def _ask(self, *arguments: Any, **options: Any) -> list:
        self.asked = True
        return []

    def __exit__(self, *error: object) -> None:
        for trainer, entry, method in reversed(self._entries):  # a class may stand there twice
            setattr(trainer, entry, method)


class ConfigCheck(Experiment):
    """Nothing is trained: the config itself is looked at, key by key, beside the code that reads it."""

    item = "config"

    def __init__(self, everything: bool) -> None:
        super().__init__()
        self.everything = everything
        self.provenance: Provenance | None = None
        self.tokens: list[str] = []  # what exceptions say that a finding has foretold
        self.unfit: set[str] = set()  # keys that a finding has named
        self.fitted = 0
        self.seconds = 0.0

    def examine(self, config: DictConfig) -> None:
        """Have all that is wrong with a job's config judged, and show where its values come from."""
        self.config = config
        self.job = copy.deepcopy(config)
        with read_write(self.job), open_dict(self.job):
            del self.job["hydra"]
        try:
            self.provenance = trace_config(config)
        except Exception as error:  # Hydra's internals, which a later version may change
            self.skip(f"the origin of values is unknown with hydra-core {version('hydra-core')}: {error}")
        self.code = read_code(folders(config))
        self.references = set(references(OmegaConf.to_container(config, resolve=False)))
        if self.provenance is not None:
            self.judge(*self._beaten(), *self._misplaced())
        self.judge(*self._missing(), *self._unresolved(), *LOOKED_FOR)
        self.judge(*self._targets(), *self._splats(), *self._texts())
        self.judge(*self._unread_keys())
        self._show(config)
        self.seconds = time.monotonic() - self.started

    def verdict(self, question: str) -> Verdict:
        verdict = super().verdict(question)
        verdict.seconds = self.seconds  # not those of the run, where other items want one
        return verdict

    def foretold(self, error: BaseException | None) -> bool:
        """Whether a finding says already what an exception says."""
        while isinstance(error, BaseException):
            if any(token in str(error) for token in self.tokens):
                return True
            error = error.__cause__
        return False

    def _beaten(self) -> Iterator[BeatenValue]:
        for key, settings in self.provenance.history.items():
            last = settings[-1]
            if last.chosen or key[0] == KEY:
                continue
            beaten = [setting for setting in settings[:-1] if setting.value != last.value]
            beaten = [setting for setting in beaten if setting.option not in self.provenance.items]
            chosen = next((setting for setting in reversed(beaten) if setting.chosen), None)
            if chosen is not None:
                yield self._chosen_beaten(".".join(key), settings, chosen)
            elif not last.primary and last.package and any(setting.primary for setting in beaten):
                primary = next(setting for setting in beaten if setting.primary)
                full_key, values = ".".join(key), (shown(last.value), shown(primary.value))
                yield BeatenValue(full_key, *values, primary.file, False, "", self.place(full_key))

    def _chosen_beaten(self, key: str, settings: list[Setting], chosen: Setting) -> BeatenValue:
        last = settings[-1]
        group = chosen.option.rpartition("/")[0]
        main = next((file.file for file in self.provenance.files if "/" not in file.option), last.file)
        others = [s for s in settings[:-1] if s is not chosen]
        over = "".join(f" and {shown(setting.value)} of {setting}" for setting in others)
        if last.parent == chosen.option:
            order = f"put _self_ at the end of the defaults list in {chosen.file}"
        elif last.primary:
            order = f"put _self_ above {group} in the defaults list of {last.file}, or remove {key} there"
        else:
            order = f"put {group} below {last.option.rpartition('/')[0] or last.option} in the defaults list of {main}"
        place = Place(key=key, origin=f"{last} beats {shown(chosen.value)} of {chosen}{over}")
        by = chosen.option.replace("/", "=")
        return BeatenValue(key, shown(last.value), shown(chosen.value), by, True, order, place)

    def _misplaced(self) -> Iterator[MisplacedFile]:
        """Files of a group such as experiment/ whose keys belong at the top, but which do not say so."""
        for file in self.provenance.files:
            group = file.option.rpartition("/")[0]
            known = [name for name in file.content if name in self.job]
            if (
                not group
                or file.header is not None
                or file.package != group.replace("/", ".")
                or len(known) < len(file.content)
                or not known
                or self._interpolated(file.package)
                or self.code is None
                or any(self._reads_below(group.rpartition("/")[2], name) for name in file.content)
            ):
                continue
            values = [".".join(key) for key, _ in leaves(file.content)]
            self.unfit.add(file.package)
            kept = shown(OmegaConf.select(self.job, values[0], default=None))
            yield MisplacedFile(file.option.replace("/", "="), file.package, file.file, values, kept)

    def _reads_below(self, group: str, name: str) -> bool:
        return (group, name) in self.code.pairs or (group in self.code.whole and group not in LIGHTNING_NAMES)

    def _missing(self) -> Iterator[MissingValue]:
        for full_key, parent, key in walk(self.job):
            if not is_missing(parent, key):
                continue
            if self.code is not None and str(key) in self.code.assigned | self.code.supplied:
                continue  # the code gives it a value
            default = self._default(parent, key)
            self._token(full_key)
            told = None if default is UNKNOWN else shown(default)
            of = "" if default is UNKNOWN else str(value_of(parent, "_target_"))
            yield MissingValue(full_key, told, of, self.place(full_key))

    def _default(self, parent: DictConfig | ListConfig, key: Any) -> Any:
        try:
            parameter = (parameters_of(locate(value_of(parent, "_target_"))) or {})[key]
        except (ImportError, KeyError, AttributeError, TypeError):
            return UNKNOWN
        plain = isinstance(parameter.default, (bool, int, float, str))
        return parameter.default if plain else UNKNOWN

    def _unresolved(self) -> Iterator[Unresolved]:
        keys = [full_key for full_key, _, _ in walk(self.job)]
        for full_key, parent, key in walk(self.job):
            if not OmegaConf.is_interpolation(parent, key):
                continue
            raw = OmegaConf.to_container(parent, resolve=False)[key]
            try:
                parent[key]
            except InterpolationToMissingValueError:
                continue  # told by what it leads to
            except OmegaConfBaseException as error:
                if isinstance(error, UnsupportedInterpolationType) and self._registers(str(error)):
                    continue
                message = str(error).splitlines()[0]
                self._token(full_key, message)
                variable = re.search(r"Environment variable '(\w+)'", message)
                words = [word for word in DOTTED.findall(raw) if word not in keys]
                near = [match for word in words for match in get_close_matches(word, keys, n=1)]
                name = "" if variable is None else variable[1]
                yield Unresolved(full_key, raw, message, name, near, self.place(full_key))

    def _registers(self, message: str) -> bool:
        """Whether the code registers the resolver that an error misses: it may do so when the job runs."""
        return self.code is None or (
            "register_new_resolver" in self.code.words and bool(set(re.findall(r"\w+", message)) & self.code.words)
        )

    def _targets(self) -> Iterator[Any]:
        for full_key, node, key in walk(self.job):
            if key != "_target_" or not isinstance(node, DictConfig) or is_missing(node, key):
                continue
            target = value_of(node, key)
            if target is UNKNOWN:  # told as an interpolation
                continue
            found, problem = found_target(target)
            if problem:
                self._token(full_key, f"full_key: {full_key.removesuffix('._target_')}", f"'{target}'")
                yield Target(full_key, shown(target), problem, place=self.place(full_key))
                continue
            self.fitted += 1
            yield from self._arguments_of(full_key, node, found, target)

    def _arguments_of(self, full_key: str, node: DictConfig, found: Any, target: str) -> Iterator[Any]:
        """Yield how the arguments of a node fit the signature of its target."""
        owner, parameters = full_key.removesuffix("_target_").removesuffix("."), parameters_of(found)
        if parameters is None:
            return
        yield from self._arguments(owner, node, found, target)
        absent = absent_arguments(owner, node, parameters, self.code, {key for _, _, key in walk(self.job)})
        if absent:
            self._token(owner, target, *(f"'{name}'" for name in absent))
        yield Target(full_key, target, "", absent, set(absent) <= {"params", "optimizer"}, self.place(owner))
        if isinstance(found, type) and issubclass(found, LightningCallback):
            yield from self._monitor(owner, node, parameters)
            if isinstance(found, type) and issubclass(found, ModelCheckpoint):
                yield from self._saving(owner, node)

    def _arguments(self, owner: str, node: DictConfig, target: Any, name: str) -> Iterator[Argument]:
        parameters = parameters_of(target) or {}
        given = [str(key) for key in node if key not in HYDRA_KEYS]
        unknown = unknown_arguments(given, parameters, self.code)
        for argument in unknown:
            key = f"{owner}.{argument}"
            self._token(f"'{argument}'", key)
            self.unfit.add(key)
            near, value = get_close_matches(argument, parameters, n=3), shown(value_of(node, argument))
            yield Argument(key, value, name, False, False, near, list(parameters), place=self.place(key))
        if takes_any(parameters):
            # What is almost called as a parameter, and taken by **kwargs.
            for argument in [key for key in given if key not in parameters and key not in self._popped()]:
                near = get_close_matches(argument, parameters, n=1, cutoff=ALIKE)
                key, value = f"{owner}.{argument}", shown(value_of(node, argument))
                self.unfit |= {key} if near else set()
                yield Argument(key, value, name, False, True, near, place=self.place(key))
        annotations = annotations_of(target)
        for argument in given:
            parameter, value = parameters.get(argument), value_of(node, argument)
            annotation = annotations.get(argument) if parameter is not None else None
            wanted = misfit(value, parameter, annotation)
            if wanted is not None:
                why = f"{name} takes {wanted} there"
                yield from self._text(f"{owner}.{argument}", value, wanted, why, node, argument)

    def _popped(self) -> set[str]:
        return set() if self.code is None else self.code.popped

    def _text(self, key: str, value: str, wanted: str, why: str, node: DictConfig, name: str) -> Iterator[Argument]:
        raw = OmegaConf.to_container(node, resolve=False)[name]
        meant = {"null": "null", "a list": "[" + value.strip()[1:-1] + "]"}.get(wanted, value.strip())
        if wanted == "true or false":
            meant = "true" if value.strip().lower() in ("true", "yes", "on") else "false"
        source = re.fullmatch(r"\$\{([\w.]+)\}", str(raw))
        key = source[1] if source and OmegaConf.select(self.job, source[1], default=None) == value else key
        if key in self.unfit:
            return
        self.unfit.add(key)
        self._token(key)
        yield Argument(key, value, wanted=wanted, meant=meant, why=why, place=self.place(key))

    def _splats(self) -> Iterator[Argument]:
        """Nodes without a target that the code hands over as `Trainer(**cfg.trainer)`."""
        for key, target, name in splatted(self.code) if self.code is not None else ():
            node = value_of(self.job, key) if key in self.job else None
            if isinstance(node, DictConfig) and "_target_" not in node and parameters_of(target) is not None:
                yield from self._arguments(key, node, target, name)

    def _texts(self) -> Iterator[Any]:
        for full_key, node, key in walk(self.job):
            if not isinstance(node, DictConfig) or full_key in self.unfit or full_key.startswith("debug."):
                continue
            value = OmegaConf.to_container(node, resolve=False)[key]
            if key == "limit_train_batches" and type(value) is int and value == 1 and not self._is_of_debug(full_key):
                epochs = node.get("max_epochs") if node.get("max_steps", -1) in (-1, None) else None
                yield BatchLimit(full_key, epochs, self.place(full_key))
            if key == "val_check_interval" and type(value) in (int, float) and not self._is_of_debug(full_key):
                yield ValidationInterval(full_key, value, self.place(full_key))
            if key in LEFTOVERS and not self._is_of_debug(full_key):
                yield from self._leftover(full_key, key, value)
            if key == "check_val_every_n_epoch" and type(value) is int and not self._is_of_debug(full_key):
                epochs = node.get("max_epochs")
                if type(epochs) is int and epochs > 0:
                    yield ValidationEpochs(full_key, value, epochs, self.place(full_key))
            if not isinstance(value, str):
                continue
            if value == "None":
                yield NoneText(full_key, self.place(full_key))
            elif "_target_" not in node and EXPONENT.fullmatch(value.strip()):
                yield from self._text(full_key, value, "a number", "it looks like one", node, key)

    def _leftover(self, full_key: str, key: str, value: Any) -> Iterator[Leftover]:
        place = self.place(full_key)
        # A share alone: a whole number of batches may be how long an epoch is meant to be.
        shortened = type(value) is float and 0 < value < 1
        is_on = shortened if key == "limit_train_batches" else isinstance(value, (int, float)) and bool(value)
        if key in ("limit_val_batches", "limit_test_batches"):  # 0 leaves a split out on purpose, as 1.0 takes all
            is_on = type(value) is int and 0 < value <= FEW_BATCHES
        if is_on and place.origin != "command line" and not TRIALS.search(place.origin):
            yield Leftover(full_key, str(value), LEFTOVERS[key], place)

    def _monitor(self, owner: str, node: DictConfig, parameters: Mapping[str, Parameter]) -> Iterator[Monitor]:
        monitor, given = (value_of(node, key) if key in node else None for key in ("monitor", "mode"))
        if not isinstance(monitor, str):
            return
        default = parameters["mode"].default if "mode" in parameters else None
        kind, logged, is_logged = value_of(node, "_target_").rpartition(".")[2], self._logged_names(), True
        if logged is not None:
            is_logged = monitor in ALWAYS_LOGGED or any(
                re.fullmatch(rf"{pattern}(_step|_epoch)?(/dataloader_idx_\d+)?", monitor)
                for pattern in self.code.logged
            )
        found = Monitor(owner, kind, monitor, default if given is None else given, "mode" in node, better(monitor))
        found.place = self.place(f"{owner}.mode" if "mode" in node else f"{owner}.monitor")
        yield found
        place = self.place(f"{owner}.monitor")
        yield Monitor(owner, kind, monitor, logged=logged, is_logged=is_logged, place=place)

    def _saving(self, owner: str, node: DictConfig) -> Iterator[SavingInterval]:
        every, epochs = node.get("every_n_epochs"), OmegaConf.select(self.job, "trainer.max_epochs")
        otherwise = node.get("every_n_train_steps") or node.get("train_time_interval")
        if type(every) is int and type(epochs) is int and epochs > 0 and not otherwise:
            key = f"{owner}.every_n_epochs"
            yield SavingInterval(key, every, epochs, self.place(key))

    def _logged_names(self) -> list[str] | None:
        """Return what the code logs; None where that cannot be told from it."""
        code = self.code
        if code is None or code.logs_more or not code.logged or self._foreign_model():
            return None
        return sorted(pattern.replace("\\", "") for pattern in code.logged)

    def _foreign_model(self) -> bool:
        """Whether a LightningModule that somebody else has written logs what this code does not show."""
        for _, node, key in walk(self.job):
            target = value_of(node, key) if key == "_target_" else None
            found, _ = found_target(target) if isinstance(target, str) else (None, "")
            if isinstance(found, type) and issubclass(found, LightningModule):
                file = getattr(sys.modules.get(found.__module__), "__file__", None) or ""
                return is_installed(file)
        return False

    def _unread_keys(self) -> Iterator[UnreadKey]:
        if self.code is None or self.code.loops or self.provenance is None:
            return
        siblings = [str(key) for key in self.job]
        for full_key in self._unread(self.job, ""):
            if any(full_key == unfit or unfit.startswith(f"{full_key}.") for unfit in self.unfit):
                continue
            name = full_key.rpartition(".")[2]
            added = any(key == full_key or key.startswith(f"{full_key}.") for key in self.provenance.added)
            near = get_close_matches(name, [other for other in siblings if other != name], n=1, cutoff=ALIKE)
            self._token(full_key)
            yield UnreadKey(full_key, added, near[0] if near else "", self.place(full_key))

    def _is_of_debug(self, full_key: str) -> bool:
        """Whether only debug items set a key; they also name keys that only some projects have."""
        settings = self.provenance.history.get(tuple(full_key.split(".")), [])
        ours = tuple(f"{name}/" for name in groups())
        return bool(settings) and all(setting.option.startswith(ours) for setting in settings)

    def _unread(self, node: DictConfig, prefix: str) -> Iterator[str]:
        for key in node:
            full_key = f"{prefix}{key}"
            if full_key == KEY or self._interpolated(full_key) or self._is_of_debug(full_key):
                continue
            child = node._get_node(key)
            if str(key) not in self.code.words:
                yield full_key
            elif (
                isinstance(child, DictConfig)
                and not (child._is_none() or child._is_missing() or child._is_interpolation())
                and "_target_" not in child
                and str(key) not in self.code.whole
            ):
                yield from self._unread(child, f"{full_key}.")

    def _interpolated(self, key: str) -> bool:
        return any(
            other == key or other.startswith(f"{key}.") or key.startswith(f"{other}.") for other in self.references
        )

    def _show(self, config: DictConfig) -> None:
        self.seen = f"{self.fitted} _target_s take their arguments"
        if self.provenance is None:
            return
        history = {key: settings for key, settings in self.provenance.history.items() if key[0] != KEY}
        told = {key: s for key, s in history.items() if len(s) > 1 or s[0].file == COMMAND_LINE}
        self.seen = f"{len(history)} keys, {len(told)} of them set by the command line or in two files; {self.seen}"
        self.facts["set"] = {
            ".".join(key): [{"value": setting.value, "where": str(setting)} for setting in settings]
            for key, settings in told.items()
        }
        secrets = secret_values(config)
        lines = {key: redact_text(line(key, settings), secrets) for key, settings in history.items()}
        path = Path(config.hydra.runtime.output_dir) / "debug" / "config.txt"
        if launched_rank() != 0 or ("RANK" in os.environ and path.is_file()):  # another process of the job shows it
            return
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{text}\n" for text in lines.values()), encoding="utf-8")
        console = Console()
        console.print()
        heading = "Every key" if self.everything else "Keys set by the command line or in two files"
        more = "" if self.everything else "; all of them: ++checks.config.all=true"
        console.print(Text(f"{heading}, with where it was set ({len(history)} keys{more})", "bold"), soft_wrap=True)
        for key in history if self.everything else told:
            console.print(Text(f"  {lines[key]}"), soft_wrap=True)
        if not told and not self.everything:
            console.print("  none")

    def place(self, key: str) -> Place:
        """Return a key with its origin: "conf/data/digits.yaml:2, over conf/train.yaml:15"."""
        where = key if self.provenance is None else self.provenance.where(key)
        return Place(key=key, origin=where.removeprefix(key).strip(" ()"))

    def _token(self, *texts: str) -> None:
        self.tokens += texts


def found_target(target: Any) -> tuple[Any, str]:
    """Return what a `_target_` names, and why nothing can be built from it, or ""."""
    if not isinstance(target, str) or not target:
        return None, "is no name of a class or function"
    try:
        found = locate(target)
    except ImportError as error:
        return None, f"cannot be imported: {error}"
    return found, "" if callable(found) else f"is a {type(found).__name__}, nothing to call"


def folders(config: DictConfig) -> list[Path]:
    """Return where the project's code is: beside its config folder, and where the command was given."""
    sources = config.hydra.runtime.config_sources
    found = [Path(source.path).parent for source in sources if source.schema == "file" and source.provider == "main"]
    return [*found, Path(config.hydra.runtime.cwd)]


def references(content: Any) -> Iterator[str]:
    """Yield every dotted word inside the interpolations of a config: keys that it reads, and more."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        for value in content:
            yield from references(value)
    elif isinstance(content, str) and "${" in content:
        for word in DOTTED.findall(content):
            yield word.rstrip(".")


def line(key: tuple[str, ...], settings: list[Setting]) -> str:
    """Return "key = value  file:line  (over file:line = value, ...)"."""
    over = ", ".join(f"{setting} = {shown(setting.value)}" for setting in settings[-2::-1])
    return f"{'.'.join(key)} = {shown(settings[-1].value)}  {settings[-1]}" + (f"  (over {over})" if over else "")


def shown(value: Any) -> str:
    """Return a value as an override writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, ListConfig)):
        return f"[{','.join(shown(part) for part in value)}]"
    return "''" if value == "" else str(value)
