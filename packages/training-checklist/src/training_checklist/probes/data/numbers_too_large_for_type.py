import torch

from training_checklist.instruments import Data, Example, MappedDataset, on_datasets
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(data: Data, limits: Limits) -> Hits:
    for place, (kind, largest, limit) in data.seen.coarse.items():
        # What is to be predicted was measured, and names nothing: that it is rounded does no harm.
        if largest > limit and place not in {data.roles.target, *data.roles.compared}:
            yield Hit(
                f"{place} holds whole numbers up to {largest:.0f} as {kind}, which has not every one beyond {limit}: "
                "neighbours become the same number",
                Place(loader="train_dataloader", note=place),
            )


def from_number(first: int) -> Example:
    return on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y, torch.tensor(float(first + index)))))


PROBE = Probe(
    question="Can the dtype of whole numbers tell them all apart (no identifiers above 2**24 in float32)?",
    why="float32 has 24 binary digits, float16 11 and bfloat16 8: identifiers and times beyond them collide",
    severity=WARNING,
    fix=Fix("keep identifiers and times in int64, beside the inputs; give the network the difference to a first time"),
    detect=detect,
    faulty=from_number(2**25),
    healthy=from_number(2**23),
)
