from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.instruments import Example, TwoEpochs, Validated, samples
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    sizes = run.epochs.sizes.found
    others = set(sizes.inferred)
    # One size for all is one weight for all; and what is answered for each of those is averaged over them.
    if len(others) < 2 or sizes.samples not in sizes.answered or others & sizes.answered:
        return
    for name, place in sizes.names.items():
        yield Hit(
            f"{name} is logged without batch_size: Lightning weights the batches by the first length that it finds in "
            f"them, {min(others)} to {max(others)}, and each has {sizes.samples} samples",
            place,
        )


class Graphs(Validated):
    """Batches that begin with edges, of which there are as many as there happen to be."""

    told: ClassVar[dict] = {}

    def training_step(self, batch: dict, batch_idx: int) -> Tensor:
        return self.loss(self(batch["inputs"]), batch["labels"])

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx), **self.told)


def collate(drawn: list) -> dict[str, Tensor]:
    inputs, labels = torch.stack([each for each, _ in drawn]), torch.stack([label for _, label in drawn])
    return {"edges": torch.zeros(20 + int(100 * inputs.abs().max())), "inputs": inputs, "labels": labels}


def graphs(kind: type[Graphs]) -> Example:
    return Example(kind, lambda: DataLoader(samples(), 8, collate_fn=collate))


PROBE = Probe(
    question="Does self.log get batch_size where Lightning would infer a wrong one?",
    why="the mean of an epoch depends on how many nodes, words or time steps a batch has, and not on its samples",
    detect=detect,
    fix=Fix("tell it: self.log(name, value, batch_size=len(labels))"),
    faulty=graphs(Graphs),
    healthy=graphs(type("Told", (Graphs,), {"told": {"batch_size": 8}})),
)
