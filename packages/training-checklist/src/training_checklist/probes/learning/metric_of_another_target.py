from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanSquaredError, Metric
from torchmetrics.classification import BinaryAUROC

from training_checklist.instruments import (
    Example,
    MetricListener,
    Small,
    TwoEpochs,
    first_losses,
    inputs_of_copies,
    leaves,
    same,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


class Targets(MetricListener):
    """Keeps the part of the batch that each metric compares with, where it is one as it is, its shape, and the line."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.found: dict[str, tuple[str, torch.Size, Place]] = {}
        self.before_update(self._look)

    def _look(self, path: str, metric: Metric, given: dict[str, Any]) -> None:
        if path not in self.found:
            place = self.place(path, metric)
            for leaf in parts_of(self.batch, given["target"]):
                self.found[path] = leaf, given["target"].shape[1:], place


def parts_of(batch: Any, tensor: Tensor) -> list[str]:
    """Return the places in a batch where a tensor stands as it is."""
    return [path for path, leaf in leaves(batch).items() if same(tensor, leaf)]


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    _, calls, batch = first_losses(run)
    known = {path: call.target for call in calls for path in parts_of(batch, call.target)}
    targets, shapes = known.keys(), {target.shape[1:] for target in known.values()}
    inputs = inputs_of_copies(run)
    found = run.heard().found
    if not found or not targets:
        raise CannotJudge("no metric, or no criterion of training, compares with a part of the batch as it is")
    for path, (target, shape, place) in found.items():
        # An autoencoder is held against its input by both, and what it tells of labels has another shape.
        is_other = target not in targets and shape in shapes
        if is_other and (target in inputs) != bool(targets & inputs):
            its, other = (", the network's input,", "") if target in inputs else ("", ", the network's input")
            named = ", ".join(sorted(targets))
            yield Hit(f"{path} compares with {target}{its} and training_step with {named}{other}", place)


class Restoring(Small):
    """Gives back 8 numbers of which it sees noisy ones."""

    target = 0

    def __init__(self) -> None:
        super().__init__()
        self.head, self.error = nn.Linear(16, 8), MeanSquaredError()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.error.update(self(batch[0]), batch[self.target])
        self.log("val/mse", self.error)


class Grading(Restoring):
    """Learns grades, too, that few samples of training have: -1 means that nobody has graded it."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, clean, grades = batch
        known = grades != -1
        loss = functional.mse_loss(self(inputs), clean)
        return loss + functional.l1_loss(self(inputs[known])[:, 0], grades[known]) if known.any() else loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.error.update(self(batch[0])[:, 0], batch[2])
        self.log("val/grade", self.error)


class Anomalies(Restoring):
    """Learns to give back what it sees, and ranks samples by how badly it does."""

    def __init__(self) -> None:
        super().__init__()
        self.error = BinaryAUROC()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch[0]), batch[0])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.error.update((self(batch[0]) - batch[0]).square().mean(1).tanh(), batch[2])
        self.log("val/auroc", self.error)


def with_labels() -> Any:
    clean, labels = torch.randn(32, 8), torch.arange(32) % 2
    return DataLoader(TensorDataset(clean, clean.abs(), labels), batch_size=16)


def graded() -> Any:
    inputs, clean = pairs().dataset.tensors
    return DataLoader(TensorDataset(inputs, clean, clean[:, 0].where(torch.arange(32) % 8 == 0, -1)), batch_size=16)


def pairs() -> Any:
    clean = torch.randn(32, 8)
    return DataLoader(TensorDataset(clean + 0.5 * torch.randn(32, 8), clean), batch_size=16)


PROBE = Probe(
    question="Are metrics and training loss both held against the target, and neither against the network's input?",
    why="one of them asks for the input as it is: either the network learns to change nothing, or the metric is best "
    "when it does",
    fix=Fix("compare with the same part of the batch in both"),
    listener=Targets,
    detect=detect,
    faulty=Example(Restoring, pairs),
    healthy=Example(type("Rightly", (Restoring,), {"target": 1}), pairs),
    also_healthy=(Example(Grading, graded), Example(Anomalies, with_labels)),
)
