import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.config_repository import ConfigRepository
from omegaconf import OmegaConf
from training_runs.start.config_files import read_once

JOBS = [[], ["rate=3"], ["net.sizes=[7]", "+net.more=1"], ["net=wide", "mode=min"], ["~net"], []]


@pytest.fixture
def conf(tmp_path, monkeypatch):
    monkeypatch.setattr(ConfigRepository, "load_config", ConfigRepository.load_config)  # and puts it back
    (tmp_path / "net").mkdir()
    (tmp_path / "config.yaml").write_text("defaults: [{net: small}, _self_]\nrate: 1\nmode: max\n")
    (tmp_path / "net" / "small.yaml").write_text("sizes: [1, 2]\nrate: ${rate}\n")
    (tmp_path / "net" / "wide.yaml").write_text("defaults: [small]\nsizes: [64]\n")
    return tmp_path


def composed(conf, overrides):
    with initialize_config_dir(str(conf), version_base="1.3"):
        return OmegaConf.to_container(compose("config", overrides=overrides, return_hydra_config=True))


def test_every_job_is_composed_as_if_it_were_the_only_one(conf):
    alone = [composed(conf, overrides) for overrides in JOBS]
    read_once()
    assert [composed(conf, overrides) for overrides in JOBS * 2] == alone * 2


def test_next_command_of_a_process_reads_the_files_as_they_are_then(conf):
    read_once()
    composed(conf, [])
    (conf / "net" / "small.yaml").write_text("sizes: [9, 9, 9]\n")
    read_once()
    assert composed(conf, [])["net"] == {"sizes": [9, 9, 9]}
