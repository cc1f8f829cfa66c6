import math
import operator

import torch
from torch import nn
from torch.utils.data import DataLoader

from training_checklist.instruments import Example, Numbers, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    step = numbers.forward
    if step.batch and not step.weights:
        yield Hit(f"{step.seen}: the batch holds NaN or Inf", Place(note="the batch"))


def loader(number: float) -> DataLoader:
    return DataLoader([(torch.full((8,), number), torch.tensor(1))] * 16, 16)


PROBE = Probe(
    item="overflow",
    question="Are all values of the batch finite where the loss is NaN or Inf?",
    why="the data hold Inf or NaN, which the network has not made",
    detect=detect,
    fix=Fix(items=("limit_batches",)),
    symptom=True,
    faulty=Example(loader=lambda: loader(math.nan)),
    healthy=Example(loader=lambda: loader(0.0)),
    also_healthy=(
        Example(with_part(lambda: nn.Parameter(torch.tensor(math.nan)), operator.add), lambda: loader(math.nan)),
    ),
)
