from .image_folder import ImageFolderDataModule
from .mnist import MNISTDataModule, SampleDataModule

__all__ = ["ImageFolderDataModule", "MNISTDataModule", "SampleDataModule"]
