import time

from torch.utils.data import DataLoader, default_collate

from training_checklist.instruments import RAISED, Data, MappedDataset, by_index, on_datasets, row_size, tensors
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    error, until = data.error, time.monotonic() + data.seconds
    if not isinstance(error, RuntimeError) or "stack expects each tensor" not in str(error):
        return
    for split in map(by_index, data.loaders):
        sizes: dict[str, list[int]] = {}
        for index in range(split.samples):
            largest = max(tensors(split.items([index])), key=row_size, default=None)
            if largest is None or time.monotonic() > until:
                break
            sizes.setdefault("x".join(map(str, largest.shape)), []).append(index)
        usual, *others = sorted(sizes, key=lambda size: -len(sizes[size])) or [""]
        if others:
            first = sizes[others[0]][0]
            yield Hit(
                f"item {first} of the training set is {others[0]} and others are {usual}; "
                f"{sum(len(sizes[size]) for size in others)} of the first {sum(map(len, sizes.values()))} are of "
                "another size",
                split.place.beside(sample=first),
                f"samples of several sizes make no batch: {error}",
            )


def cut() -> MappedDataset:
    return MappedDataset(lambda index, x, y: (x[:7] if index == 10 else x, y))


PROBE = Probe(
    question="Do all samples have one size, where collate_fn stacks them into a batch?",
    why="samples of several sizes make no batch",
    fix=Fix("resize, crop or pad them in the dataset, or give the DataLoader a collate_fn that can"),
    steps=("on_fit_end", RAISED),
    detect=detect,
    faulty=on_datasets(lambda: DataLoader(cut(), 16)),
    healthy=on_datasets(
        lambda: DataLoader(
            cut(), 16, collate_fn=lambda all_: default_collate([(x[[*range(7), -1]], y) for x, y in all_])
        )
    ),
)
