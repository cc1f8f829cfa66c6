import math

import torch
from torch.utils.data import DataLoader

from training_checklist.instruments import Example, Numbers
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    step = numbers.forward
    if step.batch and not step.weights:
        yield Hit(f"{step.seen}: the batch holds NaN or Inf", Place(note="the batch"))


PROBE = Probe(
    item="overflow",
    question="Are all values of the batch finite where the loss is NaN or Inf?",
    why="the network is given them: the data is at fault",
    detect=detect,
    fix=Fix(items=("limit_batches",)),
    symptom=True,
    faulty=Example(loader=lambda: DataLoader([(torch.full((8,), math.nan), torch.tensor(1))] * 16, 16)),
    healthy=Example(loader=lambda: DataLoader([(torch.full((8,), 0.0), torch.tensor(1))] * 16, 16)),
)
