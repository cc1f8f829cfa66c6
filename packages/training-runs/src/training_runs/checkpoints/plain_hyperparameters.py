"""Refuses, before the first step, hyperparameters that no checkpoint of this project gives back."""

import io
import pickle
from typing import Any

import torch
from pytorch_lightning.core.mixins import HyperparametersMixin
from training_config.errors import ConfigError


def check_plain(part: HyperparametersMixin) -> None:
    """Refuse what `self.save_hyperparameters()` has kept and `torch.load(weights_only=True)` does not load.

    Raises:
        ConfigError: naming them; without it the run would end at the first checkpoint that it reads, trained in vain.
    """
    objects = {name: type(value).__name__ for name, value in part.hparams.items() if not is_plain(value)}
    if objects:
        kept = ", ".join(f"{name} ({kind})" for name, kind in objects.items())
        raise ConfigError(
            f"{type(part).__name__} keeps {kept} as hyperparameters, and a checkpoint holds tensors and plain values "
            f"only; write self.save_hyperparameters(ignore={list(objects)})"
        )


def is_plain(value: Any) -> bool:
    """Whether a checkpoint gives a value back, or never gets it: Lightning leaves out what cannot be pickled."""
    file = io.BytesIO()
    try:
        torch.save(value, file)
    except Exception:  # of any kind: pickling runs the object's own code
        return True
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
    except pickle.UnpicklingError:
        return False
    return True
