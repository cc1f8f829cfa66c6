import pytest
from omegaconf import OmegaConf
from training_config.processes import device_count, needs_processes


@pytest.mark.parametrize(
    ("devices", "count"), [("auto", 5), (-1, 5), ("-1", 5), (None, 5), (2, 2), ("2", 2), ("0,1,", 2), ([0, 3, 4], 3)]
)
def test_devices_are_counted_however_lightning_takes_them(devices, count):
    assert device_count(OmegaConf.create({"devices": devices}), automatic=5) == count
    assert device_count({"devices": devices}, automatic=5) == count


@pytest.mark.parametrize(
    ("trainer", "several"),
    [
        ({}, False),
        ({"strategy": "auto", "devices": 1}, False),
        ({"strategy": "ddp_find_unused_parameters_true", "devices": 1}, True),
        ({"strategy": {"_target_": "pytorch_lightning.strategies.FSDPStrategy"}, "devices": 1}, True),
        ({"devices": 2}, True),
        ({"devices": 1, "num_nodes": 2}, True),
        ({"strategy": type("DDPStrategy", (), {})(), "devices": 1}, True),
        (OmegaConf.create({"strategy": {"_target_": "pytorch_lightning.strategies.DDPStrategy"}}), True),
        ("large", False),
        (None, False),
    ],
)
def test_strategy_devices_or_nodes_ask_for_processes(trainer, several):
    assert needs_processes(trainer) == several
