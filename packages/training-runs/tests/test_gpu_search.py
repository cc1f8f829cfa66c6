import pytest
import torch
from training_runs.start.gpu_search import stop_searching_for_gpus


def test_optimizer_steps_without_a_gpu_search_for_none(monkeypatch):
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # as importing Lightning leaves it
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    stop_searching_for_gpus()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: pytest.fail("searched for GPUs"))
    layer = torch.nn.Linear(1, 1)
    layer(torch.ones(1, 1)).sum().backward()
    torch.optim.Adam(layer.parameters()).step()
