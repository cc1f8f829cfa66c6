from .image_folder import ImageFolderDataModule
from .mnist import MNISTDataModule, SampleDataModule
from .shards import ShardsDataModule

__all__ = ["ImageFolderDataModule", "MNISTDataModule", "SampleDataModule", "ShardsDataModule"]
