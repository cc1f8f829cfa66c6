from .classifier import ImageClassifier
from .cnn import CNN
from .mlp import MLP

__all__ = ["CNN", "MLP", "ImageClassifier"]
