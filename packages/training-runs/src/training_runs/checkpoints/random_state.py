"""The state of every random generator that training draws from, as plain values and tensors."""

import random
from typing import Any

import numpy as np
import torch


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the states of Python's, NumPy's, torch's and the device's global generators."""
    name, keys, *rest = np.random.get_state()
    state = {"python": random.getstate(), "numpy": (name, keys.tolist(), *rest), "torch": torch.get_rng_state()}
    if device.type != "cpu":
        state["device"] = torch.get_device_module(device).get_rng_state(*_index(device))
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Put all generators back to where `random_state` found them."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "device" in state and device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state["device"], *_index(device))


def _index(device: torch.device) -> tuple[torch.device, ...]:
    return (device,) if device.type == "cuda" else ()  # MPS has one device, and takes none
