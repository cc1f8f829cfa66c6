from collections import Counter

import torch
from torch.utils.data import DataLoader

from training_checklist.instruments import (
    CHANCE,
    Data,
    MappedDataset,
    Validated,
    at_least,
    classes,
    counts,
    on_datasets,
)
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    number, splits = classes(data), [data.train, *data.held_out]
    for split in splits:
        known = counts(data, split)
        if len(known) != 1 or number < 2:
            continue
        [(label, count)] = known.items()
        beside = [counts(data, other) for other in splits if other.stage == split.stage and other is not split]
        if any(other.keys() - {label} for other in beside):
            continue  # one of several loaders may be of one class, or of what is to be told from all of them
        others = sum((counts(data, other) for other in splits if other is not split), Counter())
        # How often the other splits have that label. Where they have no other one either: as often as not.
        told = len(others) > 1 or (others and label not in others)
        rate = (others[label] + 1) / (others.total() + 1) if told else 0.5
        if at_least(count, count, rate) < CHANCE:
            # Where nothing tells how rare the other class is, it may be that rare.
            rare = number == 2 and not told
            yield Hit(
                f"all {count} labels of {split.name} are {label}, and the network tells {number} classes apart",
                split.place,
                severity=WARNING if rare else FAILED,
            )


def labels_below(number: int) -> MappedDataset:
    return MappedDataset(lambda index, x, y: (x, torch.tensor(index % number)))


class OfStrangers(Validated):
    """Is also tested on samples that it is to be unsure of, all of which have label 0."""

    test_step = Validated.validation_step

    def test_dataloader(self) -> list[DataLoader]:
        return [DataLoader(labels_below(number), 16) for number in (2, 1)]


PROBE = Probe(
    question="Does every split have more than one class?",
    why="with one class there is nothing to tell apart: any constant answer is right",
    fix=Fix("split the data at random or by class, and look at how labels are read"),
    detect=detect,
    faulty=on_datasets(lambda: labels_below(1)),
    healthy=on_datasets(lambda: labels_below(2)),
    also_healthy=(on_datasets(module=OfStrangers),),
)
