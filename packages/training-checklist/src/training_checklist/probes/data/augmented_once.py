import torch
from torch import Tensor

from training_checklist.instruments import UNREAD, Data, Example, MappedDataset, history, on_datasets
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    seen = history(data)
    if seen.frozen and seen.frozen == seen.marked:
        text = (
            f"{seen.frozen} of {seen.samples} samples are random, and stay as they came out when they were loaded first"
        )
        yield Hit(text, seen.place)


class Cached(MappedDataset):
    """Keeps what it has read, and augments that, or keeps what it has augmented."""

    def __init__(self, early: bool) -> None:
        super().__init__(lambda index, x, y: (x + torch.randn(8), y))
        self.early, self.cache = early, {}

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.early:
            return self.cache.setdefault(index, super().__getitem__(index))
        return self.change(index, *self.cache.setdefault(index, self.dataset[index]))


def example(early: bool) -> Example:
    return on_datasets(lambda: Cached(early))


PROBE = Probe(
    question="Does random augmentation run each time that a sample is loaded, and not only before it is cached?",
    why="a cache keeps what augmentation has made: each epoch trains on the very same images",
    severity=WARNING,
    fix=Fix("cache what is read, and augment what comes out of the cache"),
    steps=(UNREAD,),
    detect=detect,
    faulty=example(early=True),
    healthy=example(early=False),
)
