import copy
from importlib import import_module
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from training_runs.start.entry_point import unknown_keys, unknown_option, unparsed
from training_runs.start.hydra_messages import of_the_environment


@pytest.fixture
def conf(root) -> Path:
    """The project's configs."""
    return root / "conf"


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("optimizer.lrr=0.1", "optimizer.lrr is no key of train.yaml; did you mean optimizer.lr"),
        ("optimiser=sgd", "optimiser is no key of train.yaml; did you mean optimizer"),
        ("~tests", "tests is no key of train.yaml; did you mean test"),
        (
            "trainer.limit_train_batches=0.1",
            "trainer.limit_train_batches is not in train.yaml yet; add it with +trainer.limit_train_batches=0.1",
        ),
        (
            "+trainer.max_epochs=3",
            "trainer.max_epochs is in train.yaml already; write trainer.max_epochs=3 without the +",
        ),
    ],
)
def test_unknown_key_is_named_with_the_nearest_ones(conf, argument, line):
    [found] = unknown_keys([argument], conf, "train")
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("config_name", "override", "lines"),
    [
        ("train", "model=cn", ["model: there are ", "model=cn is no option of conf/model; did you mean cnn?"]),
        (
            "train",
            "optimizer=adma",
            [
                "optimizer: there are adam, adamw, sgd",
                "optimizer=adma is no option of conf/optimizer; did you mean adam or adamw?",
            ],
        ),
        ("train", "criterion=huber", ["criterion=huber is no option of conf/criterion; there are cross_entropy, "]),
        ("trian", "seed=1", ["conf: there are ", "conf has no trian.yaml; did you mean train?"]),
        ("train", "optimizer.lrr=1", []),
    ],
)
def test_unknown_option_or_config_is_named_with_the_nearest_ones(conf, config_name, override, lines):
    with initialize_config_dir(str(conf), version_base="1.3"), pytest.raises(HydraException) as refused:
        compose(config_name, overrides=[override])
    found = unknown_option(refused.value, conf)
    assert [line[: len(start)] for line, start in zip(found, lines, strict=True)] == lines


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        (["criterion=huber"], "criterion=huber is no option of conf/criterion; there are "),
        (["optimizer.lrr=1"], "optimizer.lrr is no key of train.yaml; did you mean "),
        (["seed=-1"], "seed=-1 must be a whole number from 0 to 4294967295 or null"),
    ],
)
def test_line_with_the_fix_is_the_last_and_hydra_adds_one_at_most(script, capfd, arguments, last):
    with pytest.raises(SystemExit):
        script("train.py", "data=mnist_sample", *arguments)
    said = capfd.readouterr().err.splitlines()
    assert said[-1].startswith(last)
    assert len(said) <= 2


def test_full_error_shows_everything_that_hydra_knows(script, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(HydraException, match="criterion/huber"):
        script("train.py", "criterion=huber")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["data.batch_size", "64"], ["data.batch_size 64 must be one word; write data.batch_size=64"]),
        (["seed=1", "optimizer.lr", "0.1"], ["optimizer.lr 0.1 must be one word; write optimizer.lr=0.1"]),
        (["seed"], ["""seed is no override; write seed=value, and quote what is not plain: "seed='...'\""""]),
    ],
)
def test_value_apart_from_its_key_is_told_from_what_is_no_override(arguments, lines):
    assert unparsed(arguments) == lines


def test_keys_options_flags_and_additions_are_no_unknown_keys(conf):
    arguments = ["-m", "optimizer=sgd", "optimizer.lr=0.1,0.2", "+experiment=baseline", "+new.key=1", "hydra.verbose=1"]
    assert unknown_keys(arguments, conf, "train") == []


def test_what_does_not_parse_is_left_to_hydra(conf):
    assert unknown_keys(["optimizer.lrr=[1"], conf, "train") == []


def test_variable_that_a_library_does_not_take_when_it_is_imported_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    (tmp_path / "refusing.py").write_text("raise ValueError('nonsense is no backend')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="backend") as imported:
        import_module("refusing")
    line = "MPLBACKEND=nonsense in the environment is refused: nonsense is no backend; unset MPLBACKEND"
    assert of_the_environment(imported.value) == line
    assert of_the_environment(ValueError("nonsense")) is None  # not while anything was imported
    lacking = "libtorch_cpu.so: failed to map segment from shared object"
    assert of_the_environment(ImportError(lacking)).startswith(f"a library cannot be loaded ({lacking}); ")


def test_hydras_store_is_shared_and_not_copied_for_each_group():
    assert copy.deepcopy(ConfigStore.instance()) is ConfigStore.instance()
