import torch
from torch import Tensor
from torch.utils.data import Dataset

from training_checklist.instruments import UNREAD, Data, Example, MappedDataset, history, on_datasets, origin, raw_row
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    seen = history(data)
    # Samples that are made of random numbers, and of nothing that is kept, may be made once.
    is_made = seen.redrawn and raw_row(origin(data.train.dataset)[0]) is None
    if seen.frozen and seen.frozen == seen.marked and not is_made:
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


class Simulated(Dataset):
    """Makes each sample when it is asked for, and keeps it."""

    def __init__(self) -> None:
        self.cache: dict[int, tuple[Tensor, Tensor]] = {}

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index not in self.cache:
            inputs = torch.randn(8)
            self.cache[index] = inputs, inputs[:4].argmax()
        return self.cache[index]


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
    also_healthy=(on_datasets(Simulated, Simulated),),
)
