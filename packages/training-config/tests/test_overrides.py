import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from training_config.overrides import key_of, quoted, same_job, task_overrides


@pytest.fixture
def job(root, tmp_path):
    """A job of the project's own, as Hydra has it after it has read the command line."""
    overrides = ["optimizer.lr=0.1", "+a.api_key=5ecret", "hydra.job.chdir=false", f"hydra.run.dir={tmp_path}"]
    with initialize_config_dir(str(root / "conf"), version_base="1.3"):
        cfg = compose("train", overrides=overrides, return_hydra_config=True)
    cfg.hydra.runtime.output_dir = str(tmp_path)
    HydraConfig.instance().set_config(cfg)
    return cfg


def test_overrides_of_a_job_are_told_without_secrets_and_without_hydras_own(job):
    assert task_overrides() == ["optimizer.lr=0.1", "+a.api_key=${oc.env:A_API_KEY}"]


def test_outside_of_an_application_there_are_none():
    assert task_overrides() == []


def test_same_job_runs_in_the_same_directory_with_the_same_settings(job, tmp_path):
    arguments = same_job("seed=3")
    assert arguments[:2] == ["--config-name", "train"]
    assert arguments[arguments.index("optimizer.lr=0.1") :] == [
        "optimizer.lr=0.1",
        "+a.api_key=5ecret",
        "seed=3",
        "hydra.job.chdir=false",
        f"hydra.run.dir='{tmp_path}'",
        "hydra.output_subdir=null",
    ]


@pytest.mark.parametrize("override", ["optimizer.lr=1", "+optimizer.lr=1", "++optimizer.lr=1", "~optimizer.lr"])
def test_key_of_an_override_is_known_whatever_its_sign(override):
    assert key_of(override) == "optimizer.lr"


def test_quoted_text_is_one_value_of_an_override(root):
    text = "it's a, b={c} \\ d"
    with initialize_config_dir(str(root / "conf"), version_base="1.3"):
        assert compose("train", overrides=[f"monitor={quoted(text)}", "output_dir=.", "data_dir=."]).monitor == text
