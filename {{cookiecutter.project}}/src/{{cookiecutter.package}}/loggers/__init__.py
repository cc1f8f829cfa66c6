from .csv import CSVLogger
from .tensorboard import TensorBoardLogger

__all__ = ["CSVLogger", "TensorBoardLogger"]
