from .tensorboard import TensorBoardLogger

__all__ = ["TensorBoardLogger"]
