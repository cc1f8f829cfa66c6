import ast
import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from training_config.walk import value_of, walk

from training_checklist.instruments import (
    CONFIG,
    OUTPUT_DIR,
    VERSION,
    Asked,
    Checkpoint,
    Job,
    JobConfig,
    Logger,
    RunFiles,
    Written,
    asked_for,
    is_of_one_run,
    job,
    of_line,
    once,
    parsed,
    shown,
    unread_keys,
)
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Place, Probe

TRAINER = "the Trainer, without a folder of its own,"
GIVEN_ROOT = "the Trainer, in the default_root_dir that it is given,"
AS_FILE = re.compile("^file:(//)?")  # as MLflow writes the path of its store
MADE_BY_TRAINER = {"ModelCheckpoint", "TensorBoardLogger", "CSVLogger"}  # where it is given none
CHOICE = "${hydra:runtime.choices."
STORE = "MLFlowLogger"  # gives each run a folder by its id, and asks for one store of many runs
STORES = {"mlruns", "mlartifacts", "mlflow.db"}  # as MLflow calls it in the working directory, where nobody says more
IN_STORE = "its store keeps runs apart by their ids, and what belongs to a run does not all lie in the run's directory"
KEEP = Fix("keep the store: it is there to compare runs; log the run's directory in it, to find one from the other")
OF_ONE_RUN = (
    "its name has the time of the run, or its id, so that no other run writes there; but what belongs to it lies in "
    "two places"
)
TABLES = {".csv", ".tsv", ".jsonl", ".txt"}
OF_ALL_RUNS = "each run adds to what others have written there; but what belongs to it lies in two places"
CACHED = "by its name it is a cache, which runs share; but nothing tells which run has filled it"
MADE_ONCE = "it is made where it is not there yet, and later runs find it; but nothing tells which run has made it"
CHECKS = ("exists", "is_file", "isfile")
COUNTED = "a folder version_N for each run lies there, and nobody knows by its name which run is which"
NAMES = {"project", "name", "version", "experiment_name"}  # of which loggers make folders, wherever these lie

Writer = tuple[str, str, str]  # who it is, the config key that sends the file there, and the line of code; or ""


def detect(files: RunFiles, limits: Limits) -> Hits:
    groups: dict[Writer, list[Written]] = {}
    # A path that the config names in full is the project's own run directory too.
    own = [] if Asked.current is None or Asked.current.folder == files.here else [Asked.current.folder.resolve()]
    outside = [of_logger(files, each) for each in files.recording.outside([*data(files), *own])]
    by_loggers = [each for each in outside if isinstance(each.part, Logger)]
    for written in outside:
        logged = next((each for each in by_loggers if lies_beside(files, written.path, each)), None)
        is_asked = written.part is None and logged is not None and not named(files, written.path.name)
        groups.setdefault(writer_of(files, logged if is_asked else written), []).append(written)
    for (writer, key, line), why, all_written in of_one_folder(files, groups):
        file, _, number = line.rpartition(":")
        place = files.place(key) if key else Place()
        place = place.beside(file=file, line=int(number)) if line else place
        names = [files.short(path) for path in sorted(written.path for written in all_written)]
        place = place if key or line else Place(file=names[0])
        what = f"{writer} writes outside the run's directory: {shown(names, 3)}"
        by_part = next((each for each in all_written if each.part is not None), all_written[0])
        fix = KEEP if why == IN_STORE else fix_of(files, writer, key, line, by_part)
        # Where the working directory is the run's, counting is how runs are kept apart.
        is_meant = why is not None and (why != COUNTED or not (own or Asked.current is None))
        yield Hit(what, place, why, fix, REMARK if is_meant else None)


def meant(files: RunFiles, line: str, all_written: list[Written]) -> str | None:
    """Return for what files may lie beside the runs on purpose, or None."""
    if line and is_made_once(files, line):
        return MADE_ONCE
    if all(is_of_one_run(files, each.path) for each in all_written):
        return OF_ONE_RUN
    if all(each.is_appended and each.path.suffix in TABLES for each in all_written):
        return OF_ALL_RUNS
    if all("cache" in files.short(each.path).lower() for each in all_written):
        return CACHED
    if is_in_store(files, all_written[0]):
        return IN_STORE
    return COUNTED if all(VERSION.search(files.short(each.path)) for each in all_written) else None


def of_one_folder(
    files: RunFiles, groups: dict[Writer, list[Written]]
) -> Iterator[tuple[Writer, str | None, list[Written]]]:
    """Yield the groups and what they are meant for, as one those of one folder that a key or a line of code names."""
    by_folder: dict[tuple[str, str, str, str | None], list[Writer]] = {}
    for (writer, key, line), all_written in groups.items():
        [folder, *others] = {top(files, each.path) for each in all_written}
        one = "" if key or others or not line else folder
        by_folder.setdefault((writer, key, one, meant(files, line, all_written)), []).append((writer, key, line))
    for (writer, key, folder, why), found in by_folder.items():
        line = named(files, folder, whole=True) if folder and len(found) > 1 else ""
        if len(found) > 1 and (key or line):
            yield (writer, key, line), why, [written for each in found for written in groups[each]]
        else:
            yield from ((each, why, groups[each]) for each in found)


def of_logger(files: RunFiles, written: Written) -> Written:
    """Return a file that nobody is known to have written as the logger's in whose folder it lies, if there is one."""
    if written.part is None and not written.line and not named(files, written.path.name):
        for logger in files.trainer.loggers:
            folder = getattr(logger, "log_dir", None)
            if folder and written.path.is_relative_to(os.path.realpath(files.here / folder)):
                return replace(written, part=logger)
    return written


def is_in_store(files: RunFiles, written: Written) -> bool:
    """Whether a file is of a logger's store, which keeps runs apart, or lies in it, as checkpoints do."""
    stores = [each.save_dir for each in files.trainer.loggers if type(each).__name__ == STORE]
    inside = (written.path.is_relative_to(os.path.realpath(files.here / folder)) for folder in stores if folder)
    store = store_of_mlflow()
    by_script = store is not None and (written.path.is_relative_to(store) or not STORES.isdisjoint(written.path.parts))
    return type(written.part).__name__ == STORE or any(inside) or by_script


def store_of_mlflow() -> Path | None:
    """Return where the script itself logs by MLflow, if it does."""
    ask = getattr(sys.modules.get("mlflow"), "get_tracking_uri", None)
    return None if ask is None else asked_for(Path(os.path.realpath(AS_FILE.sub("", ask()))))


def top(files: RunFiles, path: Path) -> str:
    """Return the first folder on the way from the working directory to a file."""
    return Path(files.short(path)).parts[0]


def lies_beside(files: RunFiles, path: Path, logged: Written) -> bool:
    """Whether a file lies in the folder that a logger was given, where that is the working directory in its own one."""
    given = getattr(logged.part, "save_dir", None)
    is_below = not given or path.is_relative_to(os.path.realpath(files.here / given))
    return is_below and top(files, path) == top(files, logged.path)


def writer_of(files: RunFiles, written: Written) -> tuple[str, str, str]:
    """Return who has written a file, the config key that sends it there or "", and the line of code or ""."""
    part_key = files.part_key(written.part) if written.part is not None else ""
    key = directing_key(files, written.path, part_key, written.part, written.line)
    file, _, number = written.line.rpartition(":")
    line = written.line and f"{files.short(Path(file))}:{number}"
    if written.part is not None:
        name = type(written.part).__name__
        if part_key:
            return f"{part_key} ({name})", key or part_key, ""
        built = files.built(name)
        if not built and name in MADE_BY_TRAINER:
            logger = logger_above(files, written.part)
            if logger is not None:
                above = files.part_key(logger)
                key = directing_key(files, written.path, above, logger) or above
                return f"{name}, in the folder of {above or type(logger).__name__},", key, built_at(files, logger)
            given = os.path.realpath(files.trainer.default_root_dir) != os.path.realpath(files.here)
            return GIVEN_ROOT if given else TRAINER, key, files.built("Trainer")
        if isinstance(written.part, Checkpoint) and written.part in files.undirected:
            return f"{name} without a dirpath", key, ""
        return f"{name}, built in code,", key, built or line
    if not line:
        line = named(files, written.path.name)
    return ("the code" if line else "something"), key, line


def logger_above(files: RunFiles, part: Any) -> Any:
    """Return the project's own logger whose folder a ModelCheckpoint that the Trainer has made takes, or None."""
    made_by_trainer = (
        type(part).__name__ == "ModelCheckpoint" and not files.part_key(part) and not built_at(files, part)
    )
    logger = files.trainer.logger if made_by_trainer else None
    is_own = getattr(logger, "save_dir", None) is not None and (files.part_key(logger) or built_at(files, logger))
    return logger if is_own else None


def built_at(files: RunFiles, part: Any) -> str:
    """Return "file:line" where code builds a part that no config describes, or ""."""
    return "" if files.part_key(part) else files.built(type(part).__name__)


def directing_key(files: RunFiles, path: Path, below: str, part: Any, line: str = "") -> str:
    """Return the key whose own value is the file or its folder, first below that of the part that wrote it; or "".

    Of several, the one that the line of code reads which wrote it, `cfg.a.b`; never one that nothing reads.
    """
    file, _, number = line.rpartition(":")
    code = of_line(file, int(number)).source if line else ""
    found, unread = [], read_by_nothing(files)
    # A folder in a logger's own is made by the logger, `wandb` say, whatever key has the same text.
    root = getattr(part, "save_dir", None) if isinstance(part, Logger) else None
    root = path if root is None else Path(os.path.realpath(files.here / root))
    for full_key, node, key in walk(job(files)):
        value = value_of(node, key)
        if not isinstance(value, str) or not value or len(value) > 1000 or key in NAMES:
            continue
        if attribute_set(files, str(key), CONFIG):  # the code sets another value before it is read
            continue
        if any(full_key == each or full_key.startswith(f"{each}.") for each in unread):
            continue
        if CHOICE in str(node._get_node(key)):  # the name of an option, whatever folder has the same
            continue
        named = Path(os.path.realpath(files.here / AS_FILE.sub("", value)))
        inside = path.is_relative_to(named) and root.is_relative_to(named) and not files.here.is_relative_to(named)
        if inside and not decides_run_directory(files, full_key):
            literal, raw = not OmegaConf.is_interpolation(node, key), str(node._get_node(key)._value())
            is_below = bool(below) and full_key.startswith(f"{below}.")
            is_there = re.search(rf"\b({'|'.join(CONFIG)})\.{re.escape(full_key)}\b", code) is not None
            found.append((is_there, literal, raw, is_below, len(named.parts), full_key))
    # Of keys that are one the other, the one that says it.
    known = {f"${{{each[-1]}}}" for each in found}
    return max(found, key=lambda each: (*each[:2], each[2] not in known, *each[3:]))[-1] if found else ""


@once
def read_by_nothing(files: RunFiles) -> list[str]:
    return unread_keys(JobConfig(files.config))


def decides_run_directory(files: RunFiles, key: str) -> bool:
    """Whether hydra.run.dir, or the folder of sweeps, is made of a key: it cannot be made of hydra.run.dir in turn."""
    config, mark = files.config.copy(), "the key's value"
    with read_write(config), read_write(config.hydra), open_dict(config):
        OmegaConf.update(config, key, mark)
        if Asked.current is not None:
            config.hydra.run.dir = Asked.current.raw
        return mark in config.hydra.run.dir or mark in str(config.hydra.sweep.dir)


def fix_of(files: RunFiles, writer: str, key: str, line: str, written: Written) -> Fix | None:
    path, last = written.path, key.rpartition(".")[2]
    value = OmegaConf.select(job(files), key, default=None) if key else None
    if isinstance(value, str):
        is_file = path == Path(os.path.realpath(files.here / value))
        folder = "/checkpoints" if last == "dirpath" else f"/{path.name}" if is_file else ""
        return Fix(overrides=(f"{key}={OUTPUT_DIR}{folder}",))
    part = logger_above(files, written.part) or written.part
    arguments = signature(type(part)).parameters if part is not None else ()
    folder = "HydraConfig.get().runtime.output_dir"
    if line and (writer == GIVEN_ROOT or (writer == TRAINER and not takes_the_config(files))):
        return Fix(f"in {line}: default_root_dir={folder}")
    name = "dirpath" if path.suffix == ".ckpt" else "save_dir"
    if key and last != key and name in arguments:
        # A file that does not lie where the config says: code has set the folder since.
        set_in = attribute_set(files, name) if OmegaConf.select(job(files), f"{key}.{name}", default=None) else ""
        return Fix(f"in {set_in}: {name} = {folder}") if set_in else Fix(overrides=(f"++{key}.{name}={OUTPUT_DIR}",))
    if writer not in (TRAINER, GIVEN_ROOT):
        taken = [f"{name}={folder}" for name in ("tracking_uri", "save_dir", "dirpath") if name in arguments]
        file, _, number = line.rpartition(":")
        if line and "wandb.init(" in of_line(file, int(number)).source:
            taken = [f"dir={folder}"]
        is_folder = line == named(files, top(files, path), whole=True)
        below = f"Path({folder}) / {(top(files, path) if is_folder else path.name)!r}"
        return Fix(f"in {line}: {taken[0] if taken else below}") if line else None
    mark = "" if "default_root_dir" in (job(files).get("trainer") or {}) else "+"
    return Fix(overrides=(f"{mark}trainer.default_root_dir={OUTPUT_DIR}",))


def takes_the_config(files: RunFiles) -> bool:
    """Whether code that builds a Trainer gives it whatever the config has, `Trainer(**cfg.trainer)`."""

    def gives_all(node: ast.AST) -> bool:
        called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        return called == "Trainer" and any(keyword.arg is None for keyword in node.keywords)

    return bool(files.line_of(gives_all))


def is_made_once(files: RunFiles, line: str) -> bool:
    """Whether a line of code is under a condition that asks for a file, or comes after a return under such a one."""
    file, _, number = line.rpartition(":")

    def asks(node: ast.AST) -> bool:
        parts = ast.walk(node.test) if isinstance(node, ast.If) else ()
        called = [ast.unparse(each.func) for each in parts if isinstance(each, ast.Call)]
        return any(name.rpartition(".")[2] in CHECKS for name in called)

    def guards(node: ast.AST) -> bool:
        ends = any(isinstance(each, ast.Return) for part in node.body for each in ast.walk(part))
        return within(node, int(number)) or (ends and node.end_lineno < int(number))

    for path, tree in parsed(files):
        for function in ast.walk(tree) if files.short(path) == file else ():
            inside = isinstance(function, ast.FunctionDef) and within(function, int(number))
            if inside and any(asks(node) and guards(node) for node in ast.walk(function)):
                return True
    return False


def within(node: ast.AST, line: int) -> bool:
    return node.lineno <= line <= node.end_lineno


def attribute_set(files: RunFiles, name: str, of: Collection[str] = ()) -> str:
    """Return "file:line" of the first place in the project's code that sets an attribute, or "".

    Args:
        of: names of which one is to begin with, as `cfg` in `cfg.callbacks.checkpoint.dirpath = ...`; of none, any may.
    """

    def sets(node: ast.AST) -> bool:
        is_set = isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
        return is_set and (not of or ast.unparse(node).partition(".")[0] in of)

    return files.line_of(sets)


def data(files: RunFiles) -> list[Path]:
    """Return the folders that the DataModule was told of, as far as they are not the project itself."""
    datamodule = files.trainer.datamodule
    values = [*vars(datamodule).values(), *datamodule.hparams.values()] if datamodule is not None else []
    configs = [value for value in values if isinstance(value, DictConfig)]
    leaves = [(key, value_of(node, name)) for config in configs for key, node, name in walk(config)]
    values += [value for key, value in leaves if "data" in key]  # of all that a config names, what is called so
    texts = [value for value in values if isinstance(value, (str, Path)) and value]
    named = [Path(os.path.realpath(files.here / text)) for text in texts]
    above = {files.here, *files.here.parents, *files.run.parents}
    return [path for path in named if path.is_dir() and path not in above]


def named(files: RunFiles, name: str, whole: bool = False) -> str:
    """Return "file:line" of the first text in the project's code that ends in a name, or is that of a folder, or ""."""

    def names(node: ast.AST) -> bool:
        text = str(node.value) if isinstance(node, ast.Constant) else ""
        return text.removeprefix("./").rstrip("/") == name if whole else text.endswith(name)

    return files.line_of(names)


PROBE = Probe(
    question="Does everything that a run writes lie in its own directory?",
    why="the files of several runs lie there together, and one run may overwrite another's",
    may_be_wrong="a cache that all runs share, such as prepared data, belongs outside of them",
    fix=Fix("write below HydraConfig.get().runtime.output_dir"),
    detect=detect,
    faulty=Job(("logger.csv.save_dir=logs",)),
    healthy=Job(("logger.csv.save_dir=${hydra:runtime.output_dir}/logs",)),
)
