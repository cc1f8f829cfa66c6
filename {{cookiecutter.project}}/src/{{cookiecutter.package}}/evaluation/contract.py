"""What eval.py asks of a DataModule and a LightningModule. Test metrics want the least; each further part wants more.

What lacks something is not refused: its part is left out, and eval.py says why. Training asks for none of it.

| part              | DataModule                                     | LightningModule                              |
| ----------------- | ---------------------------------------------- | -------------------------------------------- |
| test metrics      | `test_dataloader`                              | `test_step` that logs them                   |
| predictions.csv   | `predict_dataloader`: the test samples         | `predict_step`: a tensor, a row for a sample |
| what is right     | `test_set.labels` (N,), after `setup("test")`  |                                              |
| several labels    | `answer`: words for probabilities or labels    | `predict_step`: probabilities (B, classes),  |
| for a sample      | (classes,); `draw_answers`: figures by their   | each by itself                               |
|                   | names, of both (N, classes); `test_set.labels` |                                              |
| confusion matrix, | `class_names`: class index k is class_names[k] | `predict_step`: probabilities (B, classes)   |
| calibration       |                                                |                                              |
| worst mistakes    | `image_shape` (C, H, W), and of `test_set[k]`  | the same                                     |
|                   | the first is such an image of uint8            |                                              |
| `predict=` files  | `predict_files`: `__init__` sets it to None,   | `predict_step`, as above                     |
|                   | eval.py to a list of paths, which are then     |                                              |
|                   | what `predict_dataloader` is to read; and      |                                              |
|                   | `load_image` where these are to be images      |                                              |
| export            | `mean` and `std` (C, 1, 1) in units of pixels, | the network gets (image - mean) / std;       |
|                   | with `image_shape` and `test_set` as above;    |                                              |
|                   | or else nothing                                | `example_input_array`, two samples or more   |
"""

from typing import Any

from pytorch_lightning import LightningDataModule, LightningModule
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch import Tensor


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


def answers(datamodule: LightningDataModule, rows: Tensor) -> list[str]:
    """Return words for each row: probabilities (N, classes), or what is right, (N,) indices or (N, classes)."""
    if hasattr(datamodule, "answer"):
        return [datamodule.answer(row) for row in rows]
    indices = rows if rows.ndim == 1 else rows.argmax(dim=1)
    return [datamodule.class_names[int(index)] for index in indices]


def labels_of(datamodule: LightningDataModule, predictions: Tensor) -> Tensor | None:
    """Return what is right for the test samples of `predictions`, or None where the DataModule does not know."""
    labels = getattr(getattr(datamodule, "test_set", None), "labels", None)
    right = isinstance(labels, Tensor) and labels.shape == labels_shape(datamodule, predictions)
    return labels if right else None


def labels_shape(datamodule: LightningDataModule, predictions: Tensor) -> tuple[int, ...]:
    """Return the shape of what is right for predictions (N, classes)."""
    return predictions.shape if hasattr(datamodule, "answer") else predictions.shape[:1]
