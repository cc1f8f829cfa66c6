from .image_datamodule import ImageDataModule
from .mnist import MNISTDataModule, SampleDataModule

__all__ = ["ImageDataModule", "MNISTDataModule", "SampleDataModule"]
