from .mnist import MNISTDataModule, SampleDataModule

__all__ = ["MNISTDataModule", "SampleDataModule"]
