"""A debugging checklist for trainings: experiments that record evidence, and rules that judge it.

It knows nothing of any project: torch, Lightning, Hydra, torchmetrics and Rich are all that it imports, and any
LightningModule and DataModule can be examined, by `check(module, datamodule)` or by `+debug=` in a Hydra application.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training_checklist.python_call import Results, check

__all__ = ["Results", "check"]


def __getattr__(name: str) -> Any:
    # Hydra imports this package at every start, to find the items' configs: nothing heavy before somebody asks.
    if name in __all__:
        from training_checklist import python_call

        return getattr(python_call, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
