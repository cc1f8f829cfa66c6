from omegaconf import OmegaConf


def test_stamp_is_one_in_a_config_and_another_in_the_next():
    first, second = (OmegaConf.create({"a": "${run_stamp:}", "b": "${run_stamp:}"}) for _ in range(2))
    assert first.a == first.b
    assert first.a != second.a


def test_precision_of_a_device_that_is_not_there_is_full():
    assert OmegaConf.create({"precision": "${mixed_precision:tpu}"}).precision == "32-true"


def test_ddp_on_the_cpu_has_two_processes():
    assert OmegaConf.create({"devices": "${ddp_devices:cpu}"}).devices == 2
