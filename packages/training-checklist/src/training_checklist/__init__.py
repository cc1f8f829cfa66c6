"""A debugging checklist for trainings: experiments that shape runs, and probes that judge them.

It knows nothing of any project: torch, Lightning, Hydra, torchmetrics and Rich are all that it imports, and any
LightningModule and DataModule can be examined, by `check(module, datamodule)` or by `+debug=` in a Hydra application.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training_checklist.experiments.experiment import Experiment
    from training_checklist.finding import FAILED, REMARK, WARNING, Fix, Place
    from training_checklist.lab.shared import Subject
    from training_checklist.probe import CannotJudge, Hit, Probe, Threshold
    from training_checklist.python_call import Results, check

MODULES = {
    "experiments.experiment": ("Experiment",),
    "finding": ("FAILED", "REMARK", "WARNING", "Fix", "Place"),
    "lab.shared": ("Subject",),
    "probe": ("CannotJudge", "Hit", "Probe", "Threshold"),
    "python_call": ("Results", "check"),
}
__all__ = [
    "FAILED",
    "REMARK",
    "WARNING",
    "CannotJudge",
    "Experiment",
    "Fix",
    "Hit",
    "Place",
    "Probe",
    "Results",
    "Subject",
    "Threshold",
    "check",
]


def __getattr__(name: str) -> Any:
    # Hydra imports this package at every start, to find the items' configs: nothing heavy before somebody asks.
    module = next((module for module, names in MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
