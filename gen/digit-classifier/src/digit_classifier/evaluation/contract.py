"""What eval.py asks of a DataModule and a LightningModule. Test metrics want the least; each further part wants more.

What lacks something is not refused: its part is left out, and eval.py says why. Training asks for none of it.

`predict=` sets `predict_files` of a DataModule to a list of paths, those of the files that it was given; they are then
what `predict_dataloader` is to read, instead of the test samples. `__init__` sets it to None.

| part              | DataModule                             | LightningModule                              |
| ----------------- | -------------------------------------- | -------------------------------------------- |
| test metrics      | `test_dataloader`                      | `test_step` that logs them                   |
| predictions.csv   | `predict_dataloader`: the test samples | `predict_step`: a tensor, a row for a sample |
| what is right     | `Labelled`                             |                                              |
| confusion matrix, | `Classes`                              | `predict_step`: probabilities (B, classes)   |
| calibration       |                                        |                                              |
| worst mistakes    | `Images`                               | the same                                     |
| `predict=` files  | `predict_files`                        | `predict_step`, as above                     |
| export            | `Images`; else nothing                 | `example_input_array`, two samples or more   |
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from pytorch_lightning import LightningDataModule, LightningModule
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch import Tensor


class LabelledSet(Protocol):
    labels: Tensor  # (N,): class indices, or numbers, in the order of `predict_dataloader`

    def __len__(self) -> int: ...


class Labelled(Protocol):
    """A DataModule that knows what is right; `test_set` is there after `setup("test")`."""

    test_set: LabelledSet


class Classes(Labelled, Protocol):
    """A DataModule of a classification; class index k is called `class_names[k]`."""

    class_names: Sequence[str]


class Images(Classes, Protocol):
    """A DataModule of images: `test_set[k]` is (image (C, H, W) uint8, label). The network gets (image - mean) / std.

    `load_image` makes such an image of a file, for `predict=`.
    """

    load_image: Callable[[Path], Tensor]
    image_shape: Sequence[int]  # (C, H, W)
    mean: Tensor  # (C, 1, 1), in units of uint8 pixels
    std: Tensor


def no_test(model: LightningModule, datamodule: LightningDataModule) -> str | None:
    """Return why there are no test metrics, or None where there are."""
    if not is_overridden("test_step", model, LightningModule):
        return f"{type(model).__name__} has no test_step"
    if not is_overridden("test_dataloader", datamodule, LightningDataModule):
        return f"{type(datamodule).__name__} has no test_dataloader"
    return None


def no_predictions(model: LightningModule, datamodule: LightningDataModule) -> str | None:
    """Return why nothing can be predicted, or None where it can."""
    if not is_overridden("predict_step", model, LightningModule):
        return f"{type(model).__name__} has no predict_step"
    if not is_overridden("predict_dataloader", datamodule, LightningDataModule):
        return f"{type(datamodule).__name__} has no predict_dataloader"
    return None


def no_table(predictions: Any) -> str | None:
    """Return why what `predict_step` gave makes no table, or None where it does."""
    first = predictions[0] if predictions else None
    if not isinstance(first, Tensor):
        return f"predict_step returns {type(first).__name__}, not a tensor with a row for each sample"
    if first.ndim not in (1, 2):
        return f"predict_step returns {tuple(first.shape)} for a batch: more than a row for each sample"
    return None


def no_classes(datamodule: LightningDataModule, predictions: Tensor) -> str | None:
    """Return why these are no predictions of a classification, or None where they are."""
    classes = getattr(datamodule, "class_names", None)
    if classes is None:
        return f"{type(datamodule).__name__} has no class_names: this is no classification"
    if predictions.ndim != 2 or predictions.shape[1] != len(classes):
        return f"predict_step does not return probabilities (B, {len(classes)}), one for each of class_names"
    return None


def labels_of(datamodule: LightningDataModule, count: int) -> Tensor | None:
    """Return what is right for `count` test samples, or None where the DataModule does not know."""
    labels = getattr(getattr(datamodule, "test_set", None), "labels", None)
    return labels if isinstance(labels, Tensor) and labels.shape == (count,) else None
