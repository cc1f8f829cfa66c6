"""Lightning's, under the name that the configs of runs of training-runs 0.1 have saved."""

from pytorch_lightning.callbacks import ModelSummary

__all__ = ["ModelSummary"]
