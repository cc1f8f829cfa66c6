"""python train.py +experiment=several_labels data.folder=photos data.labels=labels.csv

A CSV has the columns path and label, such as `beach.jpg,sea;sand`; of images without a label the cell is empty.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric
from torchmetrics.classification import MultilabelExactMatch, MultilabelF1Score

from {{ cookiecutter.package }}.models.classifier import ImageClassifier

from .image_folder import ImageFolderDataModule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEPARATOR = ";"


class SeveralLabelsDataModule(ImageFolderDataModule):
    """Images (B, C, H, W) and labels (B, num_classes) of 0 and 1. Images with one combination are split by shares."""

    def _label(self, cell: str | None) -> tuple[float, ...]:
        names = cell.split(SEPARATOR) if cell else []
        indices = [self.class_names.index(name) for name in names]
        return tuple(float(index in indices) for index in range(self.num_classes))

    def _classes(self, label: tuple[float, ...]) -> Sequence[int]:
        return [index for index, value in enumerate(label) if value]

    def answer(self, row: Tensor) -> str:
        """Return the classes whose value in (num_classes,) is at least 0.5: `sea;sand`."""
        return SEPARATOR.join(name for name, value in zip(self.class_names, row.tolist(), strict=True) if value >= 0.5)

    def draw_answers(self, probabilities: Tensor, labels: Tensor) -> "dict[str, Figure]":
        return {"labels_found": labels_found(probabilities, labels, self.class_names)}


def labels_found(probabilities: Tensor, labels: Tensor, classes: Sequence[str]) -> "Figure":
    """Draw how often each label is found, missed and wrongly given: probabilities and labels (N, C), of 0 and 1."""
    from matplotlib import rc_context  # half a second, which only the end of a run needs
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from training_runs.figures import STYLE

    given, right = probabilities >= 0.5, labels.bool()
    counts = {"found": given & right, "missed": ~given & right, "wrongly given": given & ~right}
    with rc_context(STYLE):
        figure = Figure(figsize=(5, 0.3 * len(classes) + 1.5), layout="constrained")
        axes, left = figure.subplots(), torch.zeros(len(classes))
        for (name, each), color in zip(counts.items(), ("tab:blue", "lightgray", "tab:red"), strict=True):
            number = each.sum(dim=0)
            axes.barh(range(len(classes)), number.tolist(), left=left.tolist(), label=name, color=color)
            left = left + number
        axes.set_yticks(range(len(classes)), classes)
        axes.invert_yaxis()
        axes.set(xlabel="samples", title=f"all labels right: {(given == right).all(dim=1).float().mean():.2%}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=3)
    return figure


class LossAndF1(nn.Module):
    """The criterion's mean, the mean F1 of the labels, and the share of samples of which all labels are right."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.loss, self.f1 = MeanMetric(), MultilabelF1Score(num_labels)
        self.exact_match = MultilabelExactMatch(num_labels)

    def update(self, loss: Tensor, logits: Tensor, labels: Tensor, criterion: nn.Module) -> None:
        self.loss.update(loss.detach(), len(labels))
        self.f1.update(logits.detach(), labels.int())
        self.exact_match.update(logits.detach(), labels.int())

    def compute(self) -> dict[str, Tensor]:
        return {"loss": self.loss.compute(), "f1": self.f1.compute(), "exact_match": self.exact_match.compute()}

    def reset(self) -> None:
        for part in (self.loss, self.f1, self.exact_match):
            part.reset()


class SeveralLabelsClassifier(ImageClassifier):
    """Each label by itself: a logit a label, and a criterion such as BCEWithLogitsLoss."""

    def __init__(self, num_labels: int, **parts: Any) -> None:
        super().__init__(**parts)
        self.train_metrics, self.val_metrics, self.test_metrics = (LossAndF1(num_labels) for _ in range(3))

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.float().sigmoid()
