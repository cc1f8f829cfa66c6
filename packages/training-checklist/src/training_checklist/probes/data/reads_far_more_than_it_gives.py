import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from training_checklist.instruments import (
    TOGETHER,
    Data,
    MappedDataset,
    Split,
    by_index,
    in_bytes,
    isolate_rng,
    labelled,
    name_in,
    on_datasets,
    origin,
    raw_row,
    size_of,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

READ = Path("/proc/self/io")  # Linux's count of the bytes that this process has read


def detect(data: Data, limits: Limits) -> Hits:
    split = by_index(data.train)
    chosen = split.chosen(TOGETHER)
    if not READ.is_file():
        raise CannotJudge("the system does not tell what has been read")
    if has_files_of_their_own(split):
        return  # each is read once in an epoch, however little of it is kept, as of a thumbnail
    with isolate_rng():
        split.items(chosen)  # what is read once and kept
        if time.monotonic() > data.until:
            raise CannotJudge("samples are too slow to be loaded twice")
        before = read_so_far()
        given = size_of(split.items(chosen))
        read, given = (read_so_far() - before) // len(chosen), given // len(chosen)
    if given and read > max(limits.times_read * given, limits.least_read):
        yield Hit(
            f"loading a sample of {in_bytes(given)} reads {in_bytes(read)} from files, each time",
            split.place_of("__getitem__"),
        )


def has_files_of_their_own(split: Split) -> bool:
    """Whether a dataset keeps a file name for each sample, and none of them twice."""
    base, inside = origin(split.dataset)
    row = raw_row(base)
    kept = range(split.samples) if inside is None else inside
    names = [name_in(row(index)) for index in kept] if row is not None else [None]
    return None not in names and len({*names}) == len(names)


def read_so_far() -> int:
    return int(re.search(rb"rchar: (\d+)", READ.read_bytes())[1])


def reading(size: int, given: int = 1) -> MappedDataset:
    """Return samples for which so many bytes are read, and so many numbers given beside their own 40 bytes."""

    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        with Path("/dev/zero").open("rb", buffering=0) as file:
            file.read(size)
        return x, y, torch.zeros(given)

    return MappedDataset(change)


class Thumbnails(Dataset):
    """Keeps a few numbers of each of its files."""

    def __init__(self) -> None:
        self.inputs, self.labels = labelled().tensors
        self.folder = TemporaryDirectory()
        self.files = [str(Path(self.folder.name, f"{index}.npy")) for index in range(160)]
        for name in self.files:
            np.save(name, np.zeros(20_000, np.float32))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        x, y = self.inputs[index], self.labels[index]
        return x + float(np.load(self.files[index]).mean()), y


PROBE = Probe(
    question="Does loading a sample read about as many bytes from files as the sample has?",
    why="a whole file is read for each part of it, and an epoch reads it as often as it has samples",
    severity=WARNING,
    fix=Fix("read it once in __init__, or let numpy.load(..., mmap_mode='r') read parts of an .npy file"),
    detect=detect,
    faulty=on_datasets(lambda: reading(100_000)),
    healthy=on_datasets(lambda: reading(40_000)),
    also_healthy=(on_datasets(Thumbnails),),
    thresholds={
        "times_read": Threshold(
            100,
            "times its size: a crop of 224x224 from a photograph of 12 megapixels reads five times its own",
            faulty=on_datasets(lambda: reading(200_000, 240)),
            healthy=on_datasets(lambda: reading(200_000, 990)),
        ),
        "least_read": Threshold(65_536, "bytes: opening a file reads its first blocks, of 4 to 16 KiB"),
    },
)
