from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Sampler, WeightedRandomSampler

from training_checklist.instruments import CHANCE, Data, at_least, labelled, on_datasets, order_of
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    order, samples = order_of(data, data.train), data.train.samples
    # Weights make draws uneven, but hardly ever keep the second half of an epoch from bringing any sample anew.
    later = order.drawn // 2
    exhausted = order.new == 0 and order.distinct < min(order.drawn, samples)
    if exhausted and at_least(later, later, order.distinct / samples) < CHANCE:
        yield Hit(
            f"{order.sampler} draws {order.distinct} different samples again and again, {order.drawn} times in all; "
            f"{samples - order.distinct} of the {samples} samples of the training set are never drawn",
            order.place,
        )


def weighted(weights: torch.Tensor) -> DataLoader:
    return DataLoader(labelled(), 16, sampler=WeightedRandomSampler(weights, 160))


class Repeating(Sampler):
    """Draws a chosen part, the samples that have labels, again and again."""

    def __init__(self) -> None:
        self.labelled = [*range(0, 160, 4)]

    def __len__(self) -> int:
        return 160

    def __iter__(self) -> Iterator[int]:
        return iter(4 * self.labelled)


PROBE = Probe(
    question="Can the sampler draw every sample of the training set?",
    why="the network learns those few by heart and never sees the others",
    may_be_wrong="active learning, and training on a chosen subset, draw few samples on purpose",
    fix=Fix("WeightedRandomSampler takes one weight for each sample, as in weights_of_classes[labels]"),
    detect=detect,
    faulty=on_datasets(lambda: weighted(torch.tensor([1.0, 2.0, 3.0, 4.0]))),
    healthy=on_datasets(lambda: weighted(torch.tensor([1.0, 2.0, 3.0, 4.0])[torch.arange(160) % 4])),
    also_healthy=(on_datasets(lambda: DataLoader(labelled(), 16, sampler=Repeating())),),
)
