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
from training_config.near_names import suggestion
from training_config.provenance import COMMAND_LINE, Setting, leaves, trace_config
from training_config.secret_values import redact_text, secret_values
from training_config.targets import HYDRA_KEYS, annotations_of, locate, parameters_of, takes_any
from training_config.walk import UNKNOWN, is_missing, value_of, walk

from training_checklist import session
from training_checklist.command import command
from training_checklist.direction import better
from training_checklist.ending import launched_rank
from training_checklist.engines.own_code import is_installed
from training_checklist.experiments.config.arguments import (
    EXPONENT,
    absent_arguments,
    misfit,
    splatted,
    unknown_arguments,
)
from training_checklist.experiments.config.code_reads import read_code
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import Verdict
from training_checklist.group import group_name
from training_checklist.lightning import Callback as LightningCallback
from training_checklist.lightning import LightningModule
from training_checklist.settings import KEY

LIGHTNING = ("pytorch_lightning", "lightning.pytorch")
ENTRIES = ("fit", "validate", "test", "predict")
ALWAYS_LOGGED = {"epoch", "step"}  # a checkpoint may look at them without anyone logging them
LIGHTNING_NAMES = {"experiment"}  # attributes of Lightning's own objects, such as logger.experiment
ALIKE = 0.85  # of two names, from which on one is taken for a misspelling of the other
DOTTED = re.compile(r"[A-Za-z_][\w.]*")


class ConfigWatch(Callback):
    """Judges a job's config before anything is built from it; where no other item is on, the Trainer does nothing.

    Args:
        all: whether to show where every key was set, and not only those set twice or by the command line.
    """

    def __init__(self, all: bool) -> None:
        self.all = all

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.check = ConfigCheck(self.all)
        session.add(self.check)
        self.idle = IdleTrainer()
        self.alone = list(config.hydra.callbacks.debug["items"]) == [ConfigCheck.item]
        try:
            self.check.judge(config)
        except Exception as error:  # Hydra would make a warning of it, and the check would seem to have passed
            self.check.skip(f"the check itself has failed: {type(error).__name__}: {error}")
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
        for trainer, entry, method in self._entries:
            setattr(trainer, entry, method)


class ConfigCheck(Experiment):
    """Fails where a chosen value is beaten, a target does not fit, or a value is missing, unresolved or unread."""

    item = "config"

    def __init__(self, everything: bool) -> None:
        super().__init__()
        self.everything = everything
        self.tokens: list[str] = []  # what exceptions say that a finding has foretold
        self.unfit: set[str] = set()  # keys that a finding has named
        self.fitted = 0
        self.seconds = 0.0

    def judge(self, config: DictConfig) -> None:
        """Say all that is wrong with a job's config, and show where its values come from."""
        self.config = config
        self.job = copy.deepcopy(config)
        with read_write(self.job), open_dict(self.job):
            del self.job["hydra"]
        try:
            self.provenance = trace_config(config)
        except Exception as error:  # Hydra's internals, which a later version may change
            self.provenance = None
            self.skip(f"the origin of values is unknown with hydra-core {version('hydra-core')}: {error}")
        self.code = read_code(folders(config))
        self.references = set(references(OmegaConf.to_container(config, resolve=False)))
        if self.provenance is not None:
            self._judge_order()
            self._judge_packages()
        self._judge_missing()
        self._judge_interpolations()
        self._judge_targets()
        self._judge_splats()
        self._judge_texts()
        self._judge_unread()
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

    def _judge_order(self) -> None:
        for key, settings in self.provenance.history.items():
            last = settings[-1]
            if last.chosen or key[0] == KEY:
                continue
            beaten = [setting for setting in settings[:-1] if setting.value != last.value]
            beaten = [setting for setting in beaten if setting.option not in self.provenance.items]
            chosen = next((setting for setting in reversed(beaten) if setting.chosen), None)
            if chosen is not None:
                self._fail_beaten(".".join(key), settings, chosen)
            elif not last.primary and last.package and any(setting.primary for setting in beaten):
                primary = next(setting for setting in beaten if setting.primary)
                self.warn(
                    f"{'.'.join(key)} is {shown(last.value)}, not {shown(primary.value)} as {primary.file} says",
                    self.where(".".join(key)),
                    "the value in the main file has no effect, whichever it is",
                    f"move _self_ to the end of the defaults list in {primary.file}, or remove the value there",
                )

    def _fail_beaten(self, key: str, settings: list[Setting], chosen: Setting) -> None:
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
        self.fail(
            f"{key} is {shown(last.value)}, not {shown(chosen.value)} as {chosen.option.replace('/', '=')} says",
            f"{last} beats {shown(chosen.value)} of {chosen}{over}",
            f"you chose {chosen.option.replace('/', '=')}; a file that you did not choose overrules it without a word",
            f"{self._command(f'{key}={shown(chosen.value)}')} (the command line wins); for good: {order}",
        )

    def _judge_packages(self) -> None:
        """A file of a group such as experiment/ whose keys belong at the top, but which does not say so."""
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
            option = file.option.replace("/", "=")
            self.unfit.add(file.package)
            self.fail(
                f"{listed(values)} of {option} land in {file.package}.*, where nothing reads them",
                f"{file.file}:1",
                f"{values[0]} keeps {shown(OmegaConf.select(self.job, values[0], default=None))} of another file",
                f"make '# @package _global_' the first line of {file.file}",
            )

    def _reads_below(self, group: str, name: str) -> bool:
        return (group, name) in self.code.pairs or (group in self.code.whole and group not in LIGHTNING_NAMES)

    def _judge_missing(self) -> None:
        for full_key, parent, key in walk(self.job):
            if not is_missing(parent, key):
                continue
            if self.code is not None and str(key) in self.code.assigned | self.code.supplied:
                continue  # the code gives it a value
            default = self._default(parent, key)
            value = "VALUE" if default is UNKNOWN else shown(default)
            source = "" if default is UNKNOWN else f" ({value} is the default of {value_of(parent, '_target_')})"
            self._token(full_key)
            self.fail(
                f"{full_key} is ???: nothing has given it a value",
                self.where(full_key),
                "the run ends as soon as the value is read",
                self._command(f"{full_key}={value}") + source,
            )

    def _default(self, parent: DictConfig | ListConfig, key: Any) -> Any:
        try:
            parameter = (parameters_of(locate(value_of(parent, "_target_"))) or {})[key]
        except (ImportError, KeyError, AttributeError, TypeError):
            return UNKNOWN
        plain = isinstance(parameter.default, (bool, int, float, str))
        return parameter.default if plain else UNKNOWN

    def _judge_interpolations(self) -> None:
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
                if variable is not None:
                    fix = f"{variable[1]}=VALUE {self._command()}"
                else:
                    fix = "write ${" + near[0] + "}" if near else self._command(f"{full_key}=VALUE")
                why = "the run ends as soon as the value is read"
                self.fail(f"{full_key}={raw} does not resolve: {message}", self.where(full_key), why, fix)

    def _registers(self, message: str) -> bool:
        """Whether the code registers the resolver that an error misses: it may do so when the job runs."""
        return self.code is None or (
            "register_new_resolver" in self.code.words and bool(set(re.findall(r"\w+", message)) & self.code.words)
        )

    def _judge_targets(self) -> None:
        for full_key, node, key in walk(self.job):
            if key != "_target_" or not isinstance(node, DictConfig) or is_missing(node, key):
                continue
            target = value_of(node, key)
            if target is UNKNOWN:  # told as an interpolation
                continue
            owner = full_key.removesuffix("_target_").removesuffix(".")
            if not isinstance(target, str) or not target:
                self._fail_target(full_key, target, "is no name of a class or function", f"{full_key}=...")
                continue
            try:
                found = locate(target)
            except ImportError as error:
                self._fail_target(full_key, target, f"cannot be imported: {error}", "correct the name")
                continue
            if not callable(found):
                self._fail_target(full_key, target, f"is a {type(found).__name__}, nothing to call", "correct the name")
                continue
            self.fitted += 1
            parameters = parameters_of(found)
            if parameters is None:
                continue
            self._judge_arguments(owner, node, found, target)
            absent = absent_arguments(node, parameters, self.code)
            if absent:
                partial = set(absent) <= {"params", "optimizer"}
                self._token(owner, target, *(f"'{name}'" for name in absent))
                self.fail(
                    f"{owner} lacks {', '.join(absent)} of {target}",
                    self.where(owner),
                    f"calling {target} raises a TypeError",
                    self._command(f"+{owner}._partial_=true") + " (whoever builds it supplies them)"
                    if partial
                    else self._command(*(f"+{owner}.{name}=VALUE" for name in absent)),
                )
            if isinstance(found, type) and issubclass(found, LightningCallback):
                self._judge_mode(owner, node, parameters)
                self._judge_monitor(owner, node)

    def _fail_target(self, key: str, target: Any, what: str, fix: str) -> None:
        self._token(key, f"full_key: {key.removesuffix('._target_')}", f"'{target}'")
        self.fail(f"{key}={shown(target)} {what}", self.where(key), "nothing can be built from it", fix)

    def _judge_arguments(self, owner: str, node: DictConfig, target: Any, name: str) -> None:
        parameters = parameters_of(target) or {}
        given = [str(key) for key in node if key not in HYDRA_KEYS]
        for argument in unknown_arguments(given, parameters, self.code):
            key = f"{owner}.{argument}"
            self._token(f"'{argument}'", key)
            self.unfit.add(key)
            takes = suggestion(argument, parameters) or f"; it takes {listed(list(parameters))}"
            self.fail(
                f"{key}={shown(value_of(node, argument))} is no argument of {name}{takes}",
                self.where(key),
                f"calling {name} raises a TypeError",
                self._command(f"~{key}"),
            )
        if takes_any(parameters):
            self._judge_swallowed(owner, node, [key for key in given if key not in parameters], parameters, name)
        annotations = annotations_of(target)
        for argument in given:
            parameter, value = parameters.get(argument), value_of(node, argument)
            annotation = annotations.get(argument) if parameter is not None else None
            wanted = misfit(value, parameter, annotation)
            if wanted is not None:
                self._fail_text(f"{owner}.{argument}", value, wanted, f"{name} takes {wanted} there", node, argument)

    def _judge_swallowed(
        self, owner: str, node: DictConfig, given: list[str], parameters: Mapping[str, Parameter], name: str
    ) -> None:
        """Arguments that `**kwargs` takes, and that are almost called as a parameter."""
        for argument in given if self.code is None else set(given) - self.code.popped:
            near = get_close_matches(argument, parameters, n=1, cutoff=ALIKE)
            if near:
                key = f"{owner}.{argument}"
                self.unfit.add(key)
                self.warn(
                    f"{key}={shown(value_of(node, argument))} is no parameter of {name}; did you mean {near[0]}?",
                    self.where(key),
                    f"**kwargs takes it, and {near[0]} stays as it is",
                    self._command(f"~{key}", f"++{owner}.{near[0]}={shown(value_of(node, argument))}"),
                )

    def _fail_text(self, key: str, value: str, wanted: str, why: str, node: DictConfig, name: str) -> None:
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
        self.fail(
            f"{key} is the text {value!r}, not {wanted}",
            self.where(key),
            f"{why}; a text fails where it is used, or counts as true",
            f"{self._command(f'{key}={meant}')}; in a file without quotes: {key.rpartition('.')[2]}: {meant}",
        )

    def _judge_splats(self) -> None:
        """Nodes without a target that the code hands over as `Trainer(**cfg.trainer)`."""
        for key, target, name in splatted(self.code) if self.code is not None else ():
            node = value_of(self.job, key) if key in self.job else None
            if isinstance(node, DictConfig) and "_target_" not in node and parameters_of(target) is not None:
                self._judge_arguments(key, node, target, name)

    def _judge_texts(self) -> None:
        for full_key, node, key in walk(self.job):
            if not isinstance(node, DictConfig) or full_key in self.unfit or full_key.startswith("debug."):
                continue
            value = OmegaConf.to_container(node, resolve=False)[key]
            if not isinstance(value, str):
                continue
            if value == "None":
                self.warn(
                    f"{full_key} is the text 'None'",
                    self.where(full_key),
                    "YAML and Hydra write nothing as null; the text None is a value like any other, and true",
                    self._command(f"{full_key}=null"),
                )
            elif "_target_" not in node and EXPONENT.fullmatch(value.strip()):
                self._fail_text(full_key, value, "a number", "it looks like one", node, key)

    def _judge_mode(self, owner: str, node: DictConfig, parameters: Mapping[str, Parameter]) -> None:
        """A callback that takes the worst value of what it monitors for the best."""
        if "mode" not in parameters:
            return
        monitor, given = (value_of(node, key) if key in node else None for key in ("monitor", "mode"))
        mode = parameters["mode"].default if given is None else given
        wanted = better(monitor) if isinstance(monitor, str) else None
        if wanted is None or mode not in ("min", "max") or mode == wanted:
            return
        self.fail(
            f"{owner}.mode is {mode}, but more of {monitor} is {'better' if wanted == 'max' else 'worse'}",
            self.where(f"{owner}.mode" if "mode" in node else f"{owner}.monitor"),
            f"{value_of(node, '_target_').rpartition('.')[2]} takes the worst epoch for the best",
            self._command(f"{'' if 'mode' in node else '+'}{owner}.mode={wanted}"),
        )

    def _judge_monitor(self, owner: str, node: DictConfig) -> None:
        monitor = value_of(node, "monitor") if "monitor" in node else None
        code = self.code
        if not isinstance(monitor, str) or code is None or code.logs_more or not code.logged or self._foreign_model():
            return
        if monitor in ALWAYS_LOGGED or any(
            re.fullmatch(rf"{pattern}(_step|_epoch)?(/dataloader_idx_\d+)?", monitor) for pattern in code.logged
        ):
            return
        names = sorted(pattern.replace("\\", "") for pattern in code.logged)
        near = get_close_matches(monitor, names, n=1)
        self.fail(
            f"{owner}.monitor is {monitor}, which nothing logs; logged are {', '.join(names)}",
            self.where(f"{owner}.monitor"),
            "Lightning ends the run when the metric is looked for, which may be after the first epoch",
            self._command(f"{owner}.monitor={near[0] if near else names[0]}"),
        )

    def _foreign_model(self) -> bool:
        """Whether a LightningModule that somebody else has written logs what this code does not show."""
        for _, node, key in walk(self.job):
            target = value_of(node, key) if key == "_target_" else None
            if not isinstance(target, str):
                continue
            try:
                found = locate(target)
            except ImportError:
                continue
            if isinstance(found, type) and issubclass(found, LightningModule):
                file = getattr(sys.modules.get(found.__module__), "__file__", None) or ""
                return is_installed(file)
        return False

    def _judge_unread(self) -> None:
        if self.code is None or self.code.loops or self.provenance is None:
            return
        siblings = [str(key) for key in self.job]
        for full_key in self._unread(self.job, ""):
            if any(full_key == unfit or unfit.startswith(f"{full_key}.") for unfit in self.unfit):
                continue
            name = full_key.rpartition(".")[2]
            added = any(key == full_key or key.startswith(f"{full_key}.") for key in self.provenance.added)
            near = get_close_matches(name, [other for other in siblings if other != name], n=1, cutoff=0.8)
            self._token(full_key)
            tell = self.fail if added or near else self.warn
            tell(
                f"nothing reads {full_key}: no code names it, and no interpolation leads to it"
                + (f"; did you mean {near[0]}?" if near else ""),
                self.where(full_key),
                "whatever it is set to changes nothing",
                self._command(f"~{full_key}") if not added else f"leave +{full_key} out, or read it in the code",
            )

    def _is_of_debug(self, full_key: str) -> bool:
        """Whether only debug items set a key; they also name keys that only some projects have."""
        settings = self.provenance.history.get(tuple(full_key.split(".")), [])
        return bool(settings) and all(setting.option.startswith(f"{group_name()}/") for setting in settings)

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
        self.seen = f"{self.fitted} targets fit"
        if self.provenance is None:
            return
        history = {key: settings for key, settings in self.provenance.history.items() if key[0] != KEY}
        told = {key: s for key, s in history.items() if len(s) > 1 or s[0].file == COMMAND_LINE}
        self.seen = f"{len(history)} keys, {len(told)} of them set twice or by the command line; {self.seen}"
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
        heading = "Every key" if self.everything else "Keys set twice or by the command line"
        more = "" if self.everything else "; all of them: ++checks.config.all=true"
        console.print(Text(f"{heading}, with where it was set ({len(history)} keys{more})", "bold"), soft_wrap=True)
        for key in history if self.everything else told:
            console.print(Text(f"  {lines[key]}"), soft_wrap=True)
        if not told and not self.everything:
            console.print("  none")

    def where(self, key: str) -> str:
        return key if self.provenance is None else self.provenance.where(key)

    def _command(self, *overrides: str) -> str:
        return command(self.config, *overrides)

    def _token(self, *texts: str) -> None:
        self.tokens += texts


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


def listed(names: list[str]) -> str:
    """Return names with commas between, the first six of them."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
