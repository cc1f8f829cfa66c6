"""Where batches are cut. A GPU is played by torch's device meta, whose tensors have shapes and no values."""

from types import SimpleNamespace

import pytest
import torch
from training_config.errors import ConfigError
from training_runs.sampling import batches_on_device
from training_runs.sampling.batches_on_device import CPU, beside, cutting_device

GPU = torch.device("cuda", 0)


def training_on(device: torch.device) -> SimpleNamespace:
    return SimpleNamespace(strategy=SimpleNamespace(root_device=device))


@pytest.fixture
def memory(monkeypatch):
    """`memory(number)`: so many bytes are free on the GPU."""
    return lambda number: monkeypatch.setattr(batches_on_device, "free_memory", lambda device: number)


def test_auto_cuts_on_the_gpu_where_the_data_take_a_tenth_of_it_at_most(memory):
    memory(1000)
    assert cutting_device("auto", 100, 0, training_on(GPU)) == GPU
    assert cutting_device("auto", 101, 0, training_on(GPU)) == CPU


@pytest.mark.parametrize("device", [CPU, torch.device("mps")])
def test_auto_cuts_on_the_cpu_of_a_run_without_a_gpu(device):
    assert cutting_device("auto", 100, 0, training_on(device)) == CPU


def test_outside_of_a_run_batches_are_cut_on_the_cpu():
    assert {cutting_device(where, 100, 0, None) for where in ("auto", "cpu", "gpu")} == {CPU}


def test_processes_that_load_data_keep_them_on_the_cpu():
    assert cutting_device("auto", 100, 2, training_on(GPU)) == CPU
    with pytest.raises(ConfigError, match=r"data\.device=gpu with data\.num_workers=2; set data\.num_workers=0"):
        cutting_device("gpu", 100, 2, training_on(GPU))


def test_what_is_asked_for_is_not_weighed(memory):
    memory(0)
    assert cutting_device("gpu", 100, 0, training_on(GPU)) == GPU
    memory(1000)
    assert cutting_device("cpu", 100, 0, training_on(GPU)) == CPU


def test_gpu_without_one_is_an_error():
    with pytest.raises(ConfigError, match=r"data\.device=gpu but this run has no GPU; use data\.device=auto"):
        cutting_device("gpu", 100, 0, training_on(CPU))


def test_indices_follow_the_tensor():
    assert beside(torch.zeros(3), torch.tensor([0, 2])).device == CPU
    assert beside(torch.zeros(3, device="meta"), torch.tensor([0, 2])).device.type == "meta"
