from training_runs.loggers.csv import CSVLogger
from training_runs.loggers.tensorboard import TensorBoardLogger

__all__ = ["CSVLogger", "TensorBoardLogger"]
