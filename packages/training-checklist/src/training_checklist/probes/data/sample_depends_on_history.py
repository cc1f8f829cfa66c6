from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import UNREAD, Data, MappedDataset, history, on_datasets
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    seen = history(data)
    where = ", ".join(seen.changed[:3])
    if seen.unsteady:
        yield Hit(
            f"{seen.unsteady} of {seen.samples} samples are others when they are loaded again: loading changes what "
            f"the dataset keeps in {where}",
            seen.place.beside(note=where),
            "each epoch and each split that shares these data gets other values",
            Fix("copy before you change: x = x / scale, and not x /= scale, on a slice of what is kept"),
        )
    elif seen.marked > seen.frozen:
        yield Hit(
            f"{seen.marked} of {seen.samples} samples are others, with the same random numbers, when they have been "
            f"loaded before: augmentation changes what the dataset keeps{f' in {where}' if where else ''}",
            seen.place.beside(note=where),
            "what augmentation does to a sample adds up from epoch to epoch",
            Fix("copy before you change: image = self.images[index].clone(), and no slice of what is kept"),
        )
    elif seen.moved:
        yield Hit(
            f"{seen.moved} of {seen.samples} samples are others when samples after them are loaded first, with the "
            "same random numbers",
            seen.place,
        )


class ByDay(MappedDataset):
    """Knows a sample by a part of its index, or by all of it."""

    def __init__(self, days: int) -> None:
        super().__init__(lambda index, x, y: (x, y))
        self.days, self.cache = days, {}

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        return self.cache.setdefault(index % self.days, super().__getitem__(index))


class Dropping(MappedDataset):
    """Leaves out numbers of a sample, by random numbers of its own."""

    def __init__(self, copies: bool) -> None:
        super().__init__(self.without)
        self.copies, self.generator = copies, torch.Generator().manual_seed(0)

    def without(self, index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone() if self.copies else x
        x[torch.rand(len(x), generator=self.generator) < 0.2] = 0
        return x, y


class Noisy(MappedDataset):
    """Keeps what a generator has drawn, which lies deep in what it is made of."""

    def __init__(self) -> None:
        super().__init__(self.noised)
        self.parts: list = [torch.Generator().manual_seed(0)]
        for _ in range(8):
            self.parts = [self.parts]

    def noised(self, index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        part = self.parts
        while isinstance(part, list):
            part = part[0]
        self.noise = torch.rand(x.shape, generator=part)
        return x + self.noise, y


PROBE = Probe(
    question="Does dataset[i] return the same sample whatever was loaded before it?",
    why="an index does not stand for one sample: a cache that knows a sample by a part of its index only gives "
    "several the first one's data",
    fix=Fix("key the cache in __getitem__ by the whole index"),
    steps=(UNREAD,),
    detect=detect,
    faulty=on_datasets(lambda: ByDay(16)),
    healthy=on_datasets(lambda: ByDay(160)),
    also_faulty=(
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x.mul_(2), y))),
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x.add_(torch.rand(())), y))),
        on_datasets(lambda: Dropping(copies=False)),
    ),
    also_healthy=(
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x + torch.rand(()), y))),
        on_datasets(lambda: Dropping(copies=True)),
        on_datasets(Noisy),
    ),
)
