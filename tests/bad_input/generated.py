"""Every key of a composed config with bad values of its kind: refused in one line, or nothing is wrong with the value.

Run by tests/test_bad_input.py like table.py. A value goes two ways: into the config as composed, whose check and parts
are then tried without Hydra's frame, for every key and value; and through the whole command, for every key with one
value, and with each kind of value at many keys.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import hydra
import pytest
import torch
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from training_config.errors import ConfigError
from training_config.walk import walk
from training_runs.errors import DataError
from training_runs.records.runs import read_record
from training_runs.start.entry_point import unmergeable
from training_runs.start.feasibility import check_job
from training_runs.start.refusals import one_line

SMALL = (
    *(
        "data=mnist_sample",
        "trainer=cpu",
        "trainer.max_epochs=1",
        "figures=false",
        "test=false",
        "logger=[tensorboard,csv]",
    ),
    *("callbacks=[checkpoint,early_stopping,epoch_lines,figures,lr_monitor,model_summary,progress_bar,step_monitor]",),
    *("++trainer.limit_train_batches=1", "++trainer.limit_val_batches=1"),
)
# Between them they have every key of every option that needs neither a GPU, a network nor a package that is optional.
VARIANTS = (
    ("model=mlp", "scheduler=cosine", "optimizer=sgd"),
    ("model=cnn", "scheduler=plateau", "optimizer=adamw", "criterion=label_smoothing"),
    ("model=cnn", "scheduler=one_cycle", "optimizer=adam", "trainer=deterministic", "data=mnist"),
)

# Bad whatever the key: KEY stands for the key itself.
NOWHERE = ("???", "${nowhere}", "${KEY}")
# By the kind of value that the config has: those that must be refused, and those that a key may take or refuse.
BAD = {
    bool: ("perhaps", "2", "[true]"),
    int: ("abc", "nan", "true", "[1]", "99999999999999999999"),
    float: ("abc", "nan", "true", "[1]"),
    str: ("[a]", "{a: 1}"),
    list: ("5", "abc", "[[1]]"),
    type(None): ("[[1]]", "{a: 1}"),
    dict: ("5", "abc"),
}
DOUBTFUL = {
    bool: ("null",),
    int: ("null", "1.5", "inf", "-7", "0"),
    float: ("null", "inf", "-1.5", "0"),
    str: ("5", "null", "''", "../../x"),
    list: ("null", "[]", "[null]", "[nan]", "[-1]", "[a,a]"),
    type(None): ("abc", "-1", "0", "nan", "inf", "true"),
    dict: ("null", "[]"),
}


def kind_of(cfg: DictConfig, key: str) -> type:
    """Return the kind of a key's value; of an interpolation, what it leads to."""
    value = OmegaConf.select(cfg, key)
    if OmegaConf.is_dict(value):
        return dict
    return list if OmegaConf.is_list(value) else type(value)


def keys_of(cfg: DictConfig) -> Iterator[str]:
    """Yield every key, without those within lists, whose lists are tried whole."""
    for key, parent, name in walk(cfg):
        if isinstance(name, str) and not any(part.isdigit() for part in key.split(".")):
            yield key
            assert OmegaConf.select(parent, "no such key") is None


def values_for(cfg: DictConfig, key: str, *tables: dict[type, tuple[str, ...]]) -> list[str]:
    values = [value for table in tables for value in table[kind_of(cfg, key)]]
    anywhere = NOWHERE if tables[0] is BAD else ()
    return [value.replace("KEY", key) for value in (*anywhere, *values)]


@pytest.fixture(scope="module")
def composed(tmp_path_factory) -> Callable[..., DictConfig]:
    """`composed(*overrides)`: a copy of what train.py composes, for a directory that exists."""
    folder = tmp_path_factory.mktemp("run").as_posix()
    known: dict[tuple[str, ...], DictConfig] = {}

    def run(*overrides: str) -> DictConfig:
        if overrides not in known:
            known[overrides] = compose("train", *SMALL, *overrides, f"output_dir='{folder}'", f"data_dir='{folder}'")
        return deepcopy(known[overrides])

    return run


def compose(name: str, *overrides: str) -> DictConfig:
    with hydra.initialize_config_dir(str(Path.cwd() / "conf"), version_base="1.3"):
        return hydra.compose(name, overrides=list(overrides))


def is_group(key: str) -> bool:
    return (Path.cwd() / "conf" / key).is_dir()


# What the directory of a run is found by, which the whole command tries below.
FOUND_FIRST = ("rerun", "resume", "output_dir", "data_dir")


def cases() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (variant, key), each key once."""
    seen = set(FOUND_FIRST)
    for variant in VARIANTS:
        for key in keys_of(compose("train", *SMALL, *variant, "output_dir=.", "data_dir=.")):
            if key not in seen and not is_group(key):
                yield variant, key
            seen.add(key)


CASES = list(cases())


def refusal(cfg: DictConfig, override: str) -> list[str]:
    """Return the lines with which a config is refused that has one more override; none where it is taken."""
    try:
        ConfigLoaderImpl._apply_overrides_to_config([OverridesParser.create().parse_override(override)], cfg)
    except HydraException as error:
        return unmergeable(error)
    try:
        with one_line(cfg):
            check_job(cfg)
            build(cfg)
    except (ConfigError, DataError) as error:
        return str(error).splitlines()
    return []


def build(cfg: DictConfig) -> None:
    """Build what train.py builds, up to the first step."""
    datamodule, model = instantiate(cfg.data), instantiate(cfg.model)
    callbacks = [instantiate(part) for part in cfg.get("callbacks", {}).values() if part is not None]
    loggers = [instantiate(part) for part in cfg.get("logger", {}).values() if part is not None]
    trainer = instantiate(cfg.trainer, callbacks=callbacks, logger=loggers)
    datamodule.setup("fit")
    images, _ = datamodule.train_set[torch.arange(2)]
    model.train()(images.float())
    assert trainer.max_epochs is not None or trainer.max_steps is not None


def faults_of(lines: list[str], key: str, value: str) -> list[str]:
    """Return what is wrong with the lines that refuse a value: they name the key, and advise what has not failed."""
    faults = []
    if not any(f"{key}" in line for line in lines):
        faults.append(f"no line names {key}")
    for line in lines:
        if len(line) > 600 or not re.match(r"[\w.]+", line):
            faults.append("it is no line of key, value and fix")
        _, mark, advice = line.rpartition("; ")
        if mark and f"{key}={value}" in advice:
            faults.append("it advises what has failed")
    return faults


@pytest.mark.parametrize(("variant", "key"), CASES, ids=[key for _, key in CASES])
def test_no_value_of_a_key_ends_in_a_traceback(composed, variant, key):
    faults = []
    cfg = composed(*variant)
    for table in (BAD, DOUBTFUL):
        for value in values_for(cfg, key, table):
            try:
                lines = refusal(composed(*variant), f"{key}={value}")
            except Exception as error:
                faults.append(f"{key}={value} raises {type(error).__name__}: {str(error)[:200]}")
                continue
            if lines:
                faults += [f"{key}={value}: {fault}: {lines}" for fault in faults_of(lines, key, value)]
            elif table is BAD:
                faults.append(f"{key}={value} is taken")
    assert faults == []


def test_generator_has_more_than_a_thousand_values(composed):
    made = [value for variant, key in CASES for value in values_for(composed(*variant), key, BAD, DOUBTFUL)]
    print(f"{len(CASES)} keys, {len(made)} values")
    assert len(made) > 1000


@pytest.fixture
def refused(told, tmp_path):
    """`refused(script)`: the lines that a command is refused with, which leaves every file as it was."""

    def run(script: Callable[[], None]) -> list[str]:
        before = sorted(tmp_path.rglob("*"))
        lines = told(script).splitlines()
        assert sorted(tmp_path.rglob("*")) == before
        return lines

    return run


# Whole commands take a third of a second each: each fifth key, with another of its values each time.
WHOLE = [(variant, key, turn) for turn, (variant, key) in enumerate(CASES) if turn % 5 == 0]


@pytest.mark.parametrize(("variant", "key", "turn"), WHOLE, ids=[key for _, key, _ in WHOLE])
def test_command_with_a_bad_value_ends_with_one_and_leaves_no_directory(composed, refused, script, variant, key, turn):
    values = values_for(composed(*variant), key, BAD)
    value = values[turn // 5 % len(values)]
    told = refused(lambda: script("train.py", *SMALL, *variant, f"{key}={value}"))
    assert any(key in line for line in told), told


GROUPS = ("data", "model", "criterion", "optimizer", "scheduler", "trainer", "callbacks", "logger")
ELSEWHERE = [
    *(f"{group}={value}" for group in GROUPS for value in ("5", "null", "nothing")),
    *(f"{key}={value}" for key in ("rerun", "resume") for value in ("5", "nowhere", "[1]", "${nowhere}")),
    *(f"output_dir={value}" for value in ("5", "[1]", "''", "/dev/null", "${output_dir}")),
]


@pytest.mark.parametrize("override", ELSEWHERE)
def test_value_of_a_group_or_a_directory_is_refused(refused, script, override):
    told = refused(lambda: script("train.py", *SMALL, override))
    assert any(override.partition("=")[0] in line for line in told), told


EVALUATION = {
    "run": ("5", "nowhere", "''", "[1]", "${run}", "???", "/dev/null"),
    "ckpt": ("5", "''", "[1]", "{a: 1}", "${nowhere}", "/dev/null"),
    "summary": ("5", "''", "[1]", "nowhere"),
    "predict": ("5", "''", "[1]", "nowhere", "/dev/null"),
    "export": ("5", "[1]", "''", "nothing"),
    "batch_size": ("0", "abc", "1.5", "nan", "true", "null", "[1]", "99999999999999999999"),
    "accelerator": ("5", "null", "[1]", "nothing", "''"),
    "worst": ("-1", "abc", "1.5", "true", "null", "[1]"),
    "allow": ("5", "{a: 1}", "???"),
}
EVALUATIONS = [f"{key}={value}" for key, values in EVALUATION.items() for value in values]


@pytest.fixture
def run_of(tiny, tmp_path) -> Path:
    """A copy of a tiny run, to be evaluated or broken."""
    return shutil.copytree(tiny, tmp_path / "run")


@pytest.mark.parametrize("override", EVALUATIONS)
def test_value_of_an_evaluation_is_refused(refused, evaluate, run_of, override):
    run = () if override.startswith("run=") else (f"run={run_of}",)
    told = refused(lambda: evaluate(*run, override))
    assert any(override.partition("=")[0] in line for line in told), told


DAMAGED = ("", "{", "[1, 2]", "null", "5", "a: [1", "{}", '{"a": "${b}"}', "\udcff", "- 1\n- {a: 2}")
FILES = ("run.json", ".hydra/config.yaml", ".hydra/overrides.yaml")
COMMANDS = {"run": "eval.py", "resume": "train.py", "rerun": "train.py"}
# A run that is finished goes on where more is asked for.
FURTHER = {"run": ["accelerator=cpu"], "resume": ["trainer.max_epochs=2"], "rerun": []}
# What a command does not read.
UNREAD = {("run", ".hydra/overrides.yaml"), ("rerun", ".hydra/overrides.yaml")}
BROKEN = [(key, name) for key in COMMANDS for name in FILES if (key, name) not in UNREAD]


@pytest.mark.parametrize(("key", "name"), BROKEN, ids=[" ".join(each) for each in BROKEN])
def test_damaged_file_of_a_run_is_named(refused, script, run_of, key, name):
    whole = (run_of / name).read_bytes()
    for content in DAMAGED:
        (run_of / name).write_bytes(content.encode("utf-8", "surrogateescape"))
        told = refused(lambda: script(COMMANDS[key], f"{key}={run_of}", *FURTHER[key]))
        assert any(str(run_of) in line for line in told), (content, told)
        (run_of / name).write_bytes(whole)


ENVIRONMENT = [
    {"TORCHELASTIC_RUN_ID": "x"},
    {"TORCHELASTIC_RUN_ID": "x", "RANK": "a"},
    {"MASTER_PORT": "abc"},
    {"RANK": "-1"},
    {"RANK": "1"},
    {"LOCAL_RANK": "1"},
    {"SLURM_PROCID": "2"},
    {"WORLD_SIZE": "two"},
    {"LOCAL_WORLD_SIZE": "1.5"},
    {"SLURM_NTASKS": "abc"},
    {"SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "2"},
    {"SLURM_STEP_NUM_TASKS": "many"},
    {"SLURM_RESTART_COUNT": "often"},
]


@pytest.mark.parametrize("variables", ENVIRONMENT, ids=str)
def test_variable_of_a_launcher_out_of_shape_is_named(refused, script, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = refused(lambda: script("train.py", *SMALL))
    assert any(name in line for name in variables for line in told), told


@pytest.mark.parametrize(
    "of_sbatch", [{}, {"SLURM_PROCID": "0", "SLURM_NTASKS_PER_NODE": "4"}], ids=["salloc", "sbatch"]
)
def test_command_within_an_allocation_of_slurm_trains_as_anywhere(script, tmp_path, monkeypatch, of_sbatch):
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "mine", "SLURM_NTASKS": "4", **of_sbatch}.items():
        monkeypatch.setenv(name, value)
    script("train.py", *SMALL)
    [record] = tmp_path.glob("outputs/*/*/*/run.json")
    record = read_record(record.parent)
    assert (record["state"], record["world_size"]) == ("finished", 1)
