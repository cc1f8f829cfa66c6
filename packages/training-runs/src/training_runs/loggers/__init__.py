from typing import Any

from training_runs.loggers.csv import CSVLogger
from training_runs.loggers.mlflow import MLFlowLogger

__all__ = ["CSVLogger", "MLFlowLogger", "TensorBoardLogger"]


def __getattr__(name: str) -> Any:
    if name != "TensorBoardLogger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from training_runs.loggers.tensorboard import TensorBoardLogger  # here: tensorboard need not be installed

    return TensorBoardLogger
