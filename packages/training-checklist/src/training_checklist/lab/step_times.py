"""Where the time of a training step goes."""

import cProfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from training_checklist.engines.slow_code import profiled
from training_checklist.engines.splits import splits
from training_checklist.lab.examples import Example, Small
from training_checklist.lab.shared import Subject, once
from training_checklist.lightning import isolate_rng

LOOK = 1.0  # seconds for which samples are loaded to see where their time goes
SAMPLES = 64


@dataclass
class StepTimes(Subject):
    """The median step.

    Args:
        waited: seconds from the end of a batch to the start of the next one.
        computed: seconds.
        steps: how many were measured.
        loader: of training.
        calls: of the last steps.
    """

    waited: float
    computed: float
    steps: int
    loader: Any
    calls: cProfile.Profile = field(default_factory=cProfile.Profile)

    @property
    def share(self) -> float:
        """The share of a step that waits for data."""
        return self.waited / (self.waited + self.computed)

    def loads(self) -> Iterator[Callable[[], Any]]:
        """Yield calls that load a sample each once more, in this process, for as long as a look may take."""
        split = next((each for each in splits("train", self.loader) if each.indexable), None)
        calls = [] if split is None else [partial(split.items, [index]) for index in split.chosen(SAMPLES)]
        until = time.monotonic() + LOOK
        with isolate_rng():
            yield from takewhile(lambda _: time.monotonic() < until, calls)


@once
def loading(times: StepTimes) -> dict[Any, Any]:
    """Return what cProfile knows of loading some samples, by function."""
    return profiled(times.loads())


class Read(Dataset):
    """Samples, of which each is read by a function of its index."""

    def __init__(self, read: Callable[[int], Any]) -> None:
        self.read = read

    def __len__(self) -> int:
        return 192

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.read(index)
        return torch.zeros(8), torch.tensor(index % 4)


def reading(read: Callable[[int], Any], batch_size: int = 16, computing: float = 0.0) -> Example:
    """Make a short training on samples that are read, whose steps take so many seconds and train nothing."""

    class Computing(Small):
        def training_step(self, batch: list, batch_idx: int) -> None:
            time.sleep(computing)

    return Example(Computing, lambda: DataLoader(Read(read), batch_size), trainer={"limit_train_batches": 12})
