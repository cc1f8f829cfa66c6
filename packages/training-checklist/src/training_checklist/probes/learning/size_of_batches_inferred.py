import warnings
from contextlib import suppress
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics import Metric, MetricCollection

from training_checklist.instruments import (
    EpochListener,
    Example,
    TwoEpochs,
    Validated,
    after_forward,
    is_dense,
    samples,
    splits,
    tensors,
)
from training_checklist.lightning import LightningModule, Trainer, part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


class InferredSizes(EpochListener):
    """Sees by which sizes Lightning weights full batches of validation.

    Attributes:
        names: of what is logged without batch_size=, with the place.
        inferred: the sizes, of each batch.
        samples: that they have.
        answered: first dimensions of what the module returns, or its outermost parts where a step calls only these.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.names: dict[str, Place] = {}
        self.inferred: set[int] = set()
        self.samples = 0
        self.answered: set[int] = set()
        self.within = False
        self.whole = False  # whether the module's own forward is called
        self.before_log(self._look)
        metrics = Metric, MetricCollection  # which a project may copy, and hooks with them
        for module in (run.pl_module, *(each for each in run.pl_module.children() if not isinstance(each, metrics))):
            self.watching.callback(after_forward(module, self._keep).remove)

    def _look(self, name: str, value: Any, options: dict[str, Any]) -> None:
        mean = options.get("reduce_fx", "mean") == "mean" and not isinstance(value, Metric)
        if self.within and mean and options.get("batch_size") is None and options.get("on_epoch", True):
            self.names.setdefault(name, self.caller())

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Only of full batches it is known how many samples they have."""
        loader = trainer.val_dataloaders
        known = all(split.indexable for split in splits("val", loader))  # a stream has no end that is known
        full = dataloader_idx == 0 and isinstance(loader, DataLoader) and known and loader.batch_size is not None
        self.within = full and batch_idx + 1 < len(loader)
        if self.within:
            # Lightning may find no size, and what is no plain collection may refuse to be gone through.
            with warnings.catch_warnings(action="ignore"), suppress(Exception):
                self.inferred.add(part("utilities.data").extract_batch_size(batch))
            self.samples = loader.batch_size

    def on_validation_batch_end(self, *_: Any) -> None:
        self.within = False

    def _keep(self, module: nn.Module, given: Any, answer: Any) -> None:
        sizes = {len(each) for each in tensors(answer) if each.ndim and is_dense(each)}
        if self.within and module is self.run.pl_module:  # whatever its parts return on the way
            self.answered, self.whole = sizes | (self.answered if self.whole else set()), True
        elif self.within and not self.whole:
            self.answered |= sizes


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    sizes = run.heard()
    # One size for all is one weight for all; and what is answered for each of those is averaged over them.
    if len(sizes.inferred) < 2 or sizes.samples not in sizes.answered or sizes.inferred & sizes.answered:
        return
    for name, place in sizes.names.items():
        yield Hit(
            f"{name} is logged without batch_size: Lightning weights the batches by the first length that it finds in "
            f"them, {min(sizes.inferred)} to {max(sizes.inferred)}, and each has {sizes.samples} samples",
            place,
        )


class Graphs(Validated):
    """Batches that begin with edges, of which there are as many as there happen to be."""

    told: ClassVar[dict] = {}

    def training_step(self, batch: dict, batch_idx: int) -> Tensor:
        return self.loss(self(batch["inputs"]), batch["labels"])

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx), **self.told)


class OfAnyClass:
    """A batch that Lightning does not look into."""

    def __init__(self, parts: dict[str, Tensor]) -> None:
        self.parts = parts

    def __getitem__(self, key: str) -> Tensor:
        return self.parts[key]


class WithoutOrder(OfAnyClass):
    """A batch that names its parts, and cannot be gone through."""

    def __iter__(self) -> Any:
        raise NotImplementedError


def collate(drawn: list) -> dict[str, Tensor]:
    inputs, labels = torch.stack([each for each, _ in drawn]), torch.stack([label for _, label in drawn])
    return {"edges": torch.zeros(20 + int(100 * inputs.abs().max())), "inputs": inputs, "labels": labels}


def graphs(kind: type[Graphs], form: Any = dict) -> Example:
    return Example(kind, lambda: DataLoader(samples(), 8, collate_fn=lambda drawn: form(collate(drawn))))


Told = type("Told", (Graphs,), {"told": {"batch_size": 8}})


PROBE = Probe(
    question="Does self.log get batch_size where Lightning would infer a wrong one?",
    why="the mean of an epoch depends on how many nodes, words or time steps a batch has, and not on its samples",
    listener=InferredSizes,
    detect=detect,
    fix=Fix("tell it: self.log(name, value, batch_size=len(labels))"),
    faulty=graphs(Graphs),
    healthy=graphs(Told),
    also_healthy=(graphs(Told, OfAnyClass), graphs(Told, WithoutOrder)),
)
