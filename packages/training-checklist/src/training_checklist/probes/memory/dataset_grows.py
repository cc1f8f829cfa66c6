from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from training_checklist.instruments import Example, MemoryUse, isolate_rng, of_the_project, rises, samples, splits
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(use: MemoryUse, limits: Limits) -> Hits:
    found = [each for each in splits("train", use.trainer.train_dataloader) if each.indexable and len(each.dataset)]
    if not use.graphs or not found:  # it is asked when training is over
        raise CannotJudge("no dataset of training gives single samples by their index")
    for split in found:
        sizes = []
        with isolate_rng(), of_the_project("the dataset, asked for its first sample again,"):
            for _ in range(3):
                split.items([0])
                sizes.append({name: len(value) for name, value in containers(split.dataset)})
        for name in sizes[0]:
            counts = [size.get(name, 0) for size in sizes]
            if rises(counts):  # a cache has the sample after the first time; only a leak goes on growing
                yield Hit(
                    f"{name} grows each time that one sample is loaded: {counts[0]} to {counts[-1]}",
                    Place(loader=split.name, note=f"{type(split.dataset).__name__}.{name}"),
                    fix=Fix(f"keep nothing in {name}, or one entry a sample, under its index"),
                )


def containers(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of what a dataset, and those that it wraps, keeps things in."""
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, (list, dict, set, deque)):
            yield name, value
        elif isinstance(value, Dataset) and value is not dataset:
            yield from ((f"{name}.{inner}", each) for inner, each in containers(value))


class Cached(Dataset):
    """Samples that are kept once they have been loaded, under a key."""

    def __init__(self, by_index: bool) -> None:
        self.samples, self.by_index, self.cache = samples(), by_index, {}

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.cache.setdefault(index if self.by_index else len(self.cache), self.samples[index])


PROBE = Probe(
    question="Does the dataset keep its size in memory while a sample is loaded again and again?",
    why="it grows with every sample of every epoch, in every worker, until memory is full",
    fix=Fix("keep nothing in it"),
    detect=detect,
    faulty=Example(loader=lambda: DataLoader(Cached(by_index=False), 16)),
    healthy=Example(loader=lambda: DataLoader(Cached(by_index=True), 16)),
)
