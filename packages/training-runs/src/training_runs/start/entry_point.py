"""The frame around a Hydra entry point: nothing here imports torch."""

import re
import signal
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from training_config.errors import ConfigError
from training_config.near_names import suggestion
from training_config.overrides import quoted
from training_config.targets import locate, parameters_of
from training_config.walk import walk

from training_runs.launching import ranks
from training_runs.launching.parent import STOPS, end_with_supervisor
from training_runs.records import resume
from training_runs.reports.report import write_missing_report
from training_runs.start.config_files import read_once
from training_runs.start.hydra_messages import message, take_over
from training_runs.start.streams import outlive_readers
from training_runs.sweeps.sweep_summary import SweepSummary

PLUGINS = {
    "launcher/joblib": "joblib",
    "launcher/submitit_local": "submitit",
    "launcher/submitit_slurm": "submitit",
    "launcher/ray": "ray",
    "sweeper/optuna": "optuna",
}
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

# Hydra 1.3.8 copies its store, which nobody changes then, for each group that --help lists: half of the time of
# --help. Can go when Hydra shares it.
ConfigStore.__deepcopy__ = lambda store, memo: store


def run(entry_point: Callable[[], None], conf: Path, config_name: str) -> None:
    """Call a function made by `hydra.main`; where an override names no known key, add the nearest that exist.

    What is wrong is the context of Hydra's exit, and `message` has the words.

    Args:
        entry_point: reads the command line and runs its jobs.
        conf: the directory of its configs.
        config_name: of its primary config.
    """
    outlive_readers()
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, terminate)
    if ranks.launched_here():
        end_with_supervisor()
    try:
        sys.argv[1:] = hydra_arguments(sys.argv[1:], conf)
    except ConfigError as error:
        sys.exit(str(error))
    take_over()
    read_once()
    try:
        entry_point()
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):  # Lightning makes exit code 1 of it
            sys.exit(INTERRUPTED)
        error = stop.__context__
        for line in message(error, hints(error, conf, config_name)):
            print(line, file=sys.stderr)
        raise
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        write_missing_report()
        SweepSummary.end()
        if "torch" in sys.modules:
            end_workers()


def end_workers() -> None:
    """Kill loader workers that an error has kept from being shut down.

    They outlive the one SIGTERM that Python sends at exit, and would be waited for without an end.
    """
    from multiprocessing import active_children

    workers = [each for each in active_children() if each.daemon]
    if workers and hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch raises an error of a worker that is killed
    for worker in workers:
        worker.kill()


def hydra_arguments(given: list[str], conf: Path) -> list[str]:
    """Return the command line that Hydra is to see for the one that was given.

    Raises:
        ConfigError: it asks for what Hydra would do wrong, or would refuse with a traceback.
    """
    refused = ranks.misshapen()
    if refused:
        raise ConfigError("\n".join(refused))
    ranks.explain_allocation()
    arguments = resume.locate([*map(quoted_path, given)])
    if ranks.launched():
        arguments = arguments + rank_arguments(arguments)
    refused = no_options(arguments, conf) + no_folders(arguments)
    if refused:
        raise ConfigError("\n".join(refused))
    return arguments


def quoted_path(argument: str) -> str:
    """Return an override whose value is a path that exists so that Hydra can read it, apostrophes and all."""
    key, _, value = argument.partition("=")
    try:
        if not value or not Path(value).exists():
            return argument
        OverridesParser.create().parse_override(argument)
    except HydraException:
        return f"{key}={quoted(value)}"
    except (OSError, ValueError):  # no path at all
        pass
    return argument


def terminate(number: int, frame: FrameType | None) -> None:
    """End as a process that a signal stops, but in order: whoever has begun something can end it."""
    sys.exit(128 + number)


def hints(error: BaseException | None, conf: Path, config_name: str) -> list[str]:
    """Return what to say besides what Hydra says of an exception."""
    arguments = sys.argv[1:]
    lines = missing_plugins(str(error)) if isinstance(error, HydraException) else []
    if isinstance(error, ConfigCompositionException):
        lines += unmergeable(error)
        lines += unknown_option(error, conf) + unknown_keys(arguments, conf, config_name)
    if isinstance(error, OverrideParseException):
        lines += unparsed(arguments)
    return lines


def rank_arguments(arguments: list[str]) -> list[str]:
    """Return what a launched rank adds to its command line: all share a directory, rank 0 alone writes there."""
    if any(argument in ("-m", "--multirun") or argument.startswith("hydra.mode=MULTIRUN") for argument in arguments):
        if ranks.rank() == 0:
            print(
                "a sweep cannot be started by torchrun or srun, which start one job in many processes; "
                f"start it with python {sys.argv[0]} -m ..., and every job gets its own processes",
                file=sys.stderr,
            )
        else:
            time.sleep(ranks.SILENCE)  # the launcher ends all ranks when one ends
        sys.exit(1)
    silent = ["hydra.output_subdir=null", "hydra/job_logging=disabled", "hydra/hydra_logging=disabled"]
    return [] if ranks.rank() == 0 else silent


def missing_plugins(message: str) -> list[str]:
    """Return the install command where Hydra could not find a launcher or sweeper of `PLUGINS`."""
    return [
        f"hydra/{plugin} is not installed; install it with: pip install -e '.[{extra}]'"
        for plugin, extra in PLUGINS.items()
        if f"'hydra/{plugin}'" in message
    ]


def no_options(arguments: list[str], conf: Path) -> list[str]:
    """Return a line for each override that gives a config group no name, which Hydra answers with a traceback."""
    lines = []
    for argument in arguments:
        group = argument.partition("=")[0].lstrip("+").partition("@")[0]
        if argument.startswith("-") or not (conf / group).is_dir() or not group:
            continue
        try:
            override = OverridesParser.create().parse_override(argument)
        except HydraException:  # Hydra will say so
            continue
        value = override.value()
        names = value if isinstance(value, list) else [value]
        named = bool(names) and all(isinstance(name, str) and name for name in names)
        none = value == [] and not override.is_add()  # of a group that the defaults list has
        if override.is_sweep_override() or override.is_delete() or named or none:
            continue
        without = "leave it out" if override.is_add() else f"none with {group}=[]"
        lines.append(
            f"{argument}: a group cannot be {argument.partition('=')[2] or 'empty'}; choose an option of "
            f"{conf.name}/{group}, or {without}"
        )
    return lines


def no_folders(arguments: list[str]) -> list[str]:
    """Return a line for each folder of configs that is not there, and which Hydra passes over."""
    pairs = [*pairwise([*arguments, ""]), *(argument.partition("=")[::2] for argument in arguments)]
    named = [folder for option, folder in pairs if option in ("--config-dir", "-cd") and folder]
    return [f"--config-dir={each} is no folder; name one with configs" for each in named if not Path(each).is_dir()]


def unmergeable(error: HydraException) -> list[str]:
    """Return a line where an override puts a list in the place of a dictionary, or the other way round."""
    merging = re.match(r"Error merging override (.*)", str(error))
    kinds = re.search(r"Cannot merge (Dict|List)Config with (Dict|List)Config", f"{error} {error.__cause__}")
    if merging is None or kinds is None:
        return []
    names = {"Dict": "keys and values, {...}", "List": "a list, [...]"}
    return [f"{merging[1]} cannot be: {merging[1].partition('=')[0].lstrip('+')} must be {names[kinds[2]]}"]


def unparsed(arguments: list[str]) -> list[str]:
    """Return a line for each argument that is no override."""
    lines, given = [], [argument for argument in arguments if not argument.startswith("-")]
    apart = next((each for each in pairwise(given) if are_key_and_value(*each)), None)
    if apart is not None:
        return [f"{' '.join(apart)} must be one word; write {'='.join(apart)}"]
    for argument in given:
        try:
            OverridesParser.create().parse_override(argument)
        except HydraException:
            key = argument.partition("=")[0]
            lines.append(f"{argument} is no override; write {key}=value, and quote what is not plain: \"{key}='...'\"")
    return lines


def are_key_and_value(first: str, second: str) -> bool:
    """Whether two arguments are an override with a space where its equals sign belongs."""
    return re.fullmatch(r"[\w./@]*[^\W\d][\w./@]*", first) is not None and "=" not in second


def unknown_option(error: HydraException, conf: Path) -> list[str]:
    """Return a line where a group lacks an option, or there is no such config: all, then those of a similar name."""
    if not isinstance(error, MissingConfigException) or not error.missing_cfg_file:
        return []
    group, _, option = error.missing_cfg_file.removesuffix(".yaml").rpartition("/")
    options = error.options or [path.stem for path in (conf / group).glob("*.yaml")]
    place = f"{group}={option} is no option of {conf.name}/{group}" if group else f"{conf.name} has no {option}.yaml"
    there = f"there are {', '.join(options)}" if options else "there are none"
    near = suggestion(option, options)
    return [f"{group or conf.name}: {there}", place + near] if near else [f"{place}; {there}"]


def unknown_keys(arguments: list[str], conf: Path, config_name: str) -> list[str]:
    """Return a line for each override of a key that `config_name` does not have, or adds one that it has."""
    GlobalHydra.instance().clear()
    parser = OverridesParser.create()
    try:
        overrides = [parser.parse_override(argument) for argument in arguments if not argument.startswith("-")]
        groups = [path.relative_to(conf).as_posix() for path in conf.rglob("*") if path.is_dir()]
        options = [
            each.input_line for each in overrides if each.key_or_group in groups and not each.is_sweep_override()
        ]
        with initialize_config_dir(str(conf), version_base="1.3"):
            cfg = compose(config_name, overrides=options)
    except HydraException:  # Hydra has said already what does not parse or compose
        return []
    known = [key for key, _, _ in walk(cfg) if "._" not in key]
    lines = []
    for override in overrides:
        key, plain = override.key_or_group, override.input_line.lstrip("+")
        if override.is_add() and override.package is None and key in known and key not in groups:
            lines.append(f"{key} is in {config_name}.yaml already; write {plain} without the +")
        if override.is_add() or override.is_force_add() or key.startswith("hydra") or key in known or key in groups:
            continue
        if takes(cfg, key):
            lines.append(f"{key} is not in {config_name}.yaml yet; add it with +{plain}")
            continue
        ends = [name for name in known if name.endswith(f".{key}")]  # lr for optimizer.lr
        near = f"; did you mean {' or '.join(ends)}?" if ends else suggestion(key, known + groups)
        lines.append(f"{key} is no key of {config_name}.yaml{near}")
    return lines


def takes(cfg: DictConfig, key: str) -> bool:
    """Whether `key` is an argument, not set yet, of what the config builds there: trainer.limit_train_batches."""
    owner, _, argument = key.rpartition(".")
    node = OmegaConf.select(cfg, owner) if owner else None
    if not OmegaConf.is_dict(node) or "_target_" not in node:
        return False
    try:
        return argument in (parameters_of(locate(node._target_)) or ())
    except (ImportError, OmegaConfBaseException):
        return False
