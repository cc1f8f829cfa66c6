import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils.data import Dataset, get_worker_info


class SeededDataset(Dataset[Any]):
    """Draws the same for a sample of an epoch wherever it is loaded: in which worker, at what time, after a resume.

    Around a dataset with random transforms, under an `EpochSampler`, which says the epoch. Random numbers of Python,
    NumPy and torch follow from (seed, epoch, index); the generators of the process are left as they were.
    """

    def __init__(self, dataset: Dataset, seed: int) -> None:
        self.dataset = dataset
        self.seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: tuple[int, int] | int) -> Any:
        epoch, index = key if isinstance(key, tuple) else (0, key)  # whoever only looks at a sample knows no epoch
        with drawing_by(self.seed, epoch, index):
            return self.dataset[index]


@contextmanager
def drawing_by(*numbers: int) -> Iterator[None]:
    """Let random numbers of Python, NumPy and torch follow from `numbers`; afterwards all is as it was.

    But for a loader's worker, whose generators are nobody else's: to put them back takes longer than to seed them.
    """
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    with isolate_rng(include_cuda=False) if get_worker_info() is None else nullcontext():
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would change the devices' too
        yield
