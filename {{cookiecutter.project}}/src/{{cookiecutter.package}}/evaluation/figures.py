"""Figures of a classifier's predictions. Nothing here needs a display."""

import math
from collections.abc import Sequence

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import Dataset
from torchmetrics.functional.classification import multiclass_calibration_error, multiclass_confusion_matrix
from training_runs.figures import STYLE

BINS = 10  # of confidence


def of_predictions(
    datamodule: LightningDataModule,
    probabilities: Tensor,
    labels: Tensor,
    shown: Dataset | None,
    most: int,
    names: Sequence[str] = (),
) -> dict[str, Figure]:
    """Draw probabilities (N, C) beside labels (N,), and mistakes among the N samples that are `shown`, by name."""
    if hasattr(datamodule, "draw_answers"):
        return datamodule.draw_answers(probabilities, labels)
    classes = datamodule.class_names
    drawn = {"confusion_matrix": confusion_matrix(probabilities, labels, classes)}
    drawn["calibration"] = calibration(probabilities, labels)
    if shown is not None:
        drawn["worst_mistakes"] = worst_mistakes(shown, probabilities, labels, classes, most, names)
    return drawn


@rc_context(STYLE)
def confusion_matrix(probabilities: Tensor, labels: Tensor, classes: Sequence[str]) -> Figure:
    """Draw counts of (label, prediction) from probabilities (N, C) and labels (N,), coloured by share of the row."""
    counts = multiclass_confusion_matrix(probabilities, labels, num_classes=len(classes))
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    side = max(4.0, 0.4 * len(classes) + 1.0)  # inches
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    for label, prediction in counts.nonzero().tolist():
        color = "white" if shares[label, prediction] > 0.5 else "black"
        count = str(int(counts[label, prediction]))
        axes.text(prediction, label, count, ha="center", va="center", color=color, fontsize=7)
    axes.set_xticks(range(len(classes)), classes, rotation=45 if max(map(len, classes)) > 2 else 0)
    axes.set_yticks(range(len(classes)), classes)
    axes.set(xlabel="predicted", ylabel="label", title=f"accuracy {counts.diagonal().sum() / counts.sum():.2%}")
    return figure


@rc_context(STYLE)
def worst_mistakes(
    dataset: Dataset, probabilities: Tensor, labels: Tensor, classes: Sequence[str], most: int, names: Sequence = ()
) -> Figure:
    """Draw up to `most` wrongly classified images, the most confident first.

    Args:
        dataset: of N samples, each a pair of which the first is (C, H, W) uint8, C is 1 or 3.
        probabilities: (N, num_classes).
        labels: (N,).
        classes: what to call each class.
        most: how many at the most.
        names: N, of the files, where they are files.
    """
    confidence, predicted = probabilities.max(dim=1)
    wrong = torch.nonzero(predicted != labels).flatten()
    worst = wrong[confidence[wrong].argsort(descending=True)][:most]
    columns = max(1, min(5, len(worst)))
    rows = max(1, math.ceil(len(worst) / columns))
    images = [dataset[index][0] for index in worst.tolist()]
    channels, height, width = images[0].shape if images else (1, 1, 1)
    # One picture of all, each with room for its lines above it: an axes each would take a second to lay out.
    pitch, room = round(1.1 * width) + 1, round((0.5 if names else 0.4) * height) + 1
    sheet = torch.full((rows * (height + room), columns * pitch, channels), 255, dtype=torch.uint8)
    figure = Figure(figsize=(1.2 * columns, 1.2 * rows * (height + room) / pitch + 0.4), layout="constrained")
    axes = figure.subplots()
    for place, (index, image) in enumerate(zip(worst.tolist(), images, strict=True)):
        top, left = place // columns * (height + room) + room, place % columns * pitch
        sheet[top : top + height, left : left + width] = image.permute(1, 2, 0)  # (C, H, W) -> (H, W, C)
        found, label = classes[int(predicted[index])], classes[int(labels[index])]
        file = f"{names[index].rpartition('/')[2][-20:]}\n" if names else ""  # as much as is as wide as an image
        said = f"{file}{found} ({confidence[index]:.0%})\nis {label}"
        axes.text(left + width / 2 - 0.5, top - 1, said, ha="center", va="bottom", fontsize=8)
    axes.imshow(sheet.squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=255)
    axes.axis("off")
    axes.set_title(f"{len(wrong)} mistakes in {len(labels)}" + (", the most confident" if len(wrong) > most else ""))
    return figure


@rc_context(STYLE)
def calibration(probabilities: Tensor, labels: Tensor) -> Figure:
    """Draw how often predictions of each confidence are right (Guo et al. 2017, "On Calibration", figure 1).

    The title has the expected calibration error: the mean distance from the diagonal, weighted by samples.
    """
    confidence, predicted = probabilities.max(dim=1)
    right = (predicted == labels).float()
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    count = torch.bincount(bins, minlength=BINS)
    accuracy = torch.bincount(bins, weights=right, minlength=BINS) / count
    centres = [(index + 0.5) / BINS for index in range(BINS)]
    error = multiclass_calibration_error(probabilities, labels, probabilities.shape[1], n_bins=BINS)
    figure = Figure(figsize=(3.4, 3.4), layout="constrained")
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    axes.bar(centres, accuracy.nan_to_num().tolist(), width=0.9 / BINS)
    axes.plot([0, 1], [0, 1], "--", color="gray", linewidth=1)
    axes.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), title=f"expected calibration error {error:.2%}")
    below.bar(centres, count.tolist(), width=0.9 / BINS, color="gray")
    below.set(xlabel="confidence", ylabel="samples", yscale="log")
    below.yaxis.set_major_formatter("{x:g}")
    below.yaxis.set_minor_formatter("")  # else 6 x 10^0 where all lies within a power of ten
    return figure
