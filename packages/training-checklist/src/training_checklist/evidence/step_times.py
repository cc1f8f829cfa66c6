"""Where the time of a training step goes."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass(frozen=True)
class Loader:
    """How the training batches are made; fields that do not apply are None.

    Args:
        dataset: its type, or the loader's own where that is none of torch's.
    """

    dataset: str
    workers: int | None = None
    persistent: bool | None = None
    pinned: bool | None = None

    @property
    def place(self) -> Place:
        known = f", num_workers={self.workers}, persistent_workers={self.persistent}, pin_memory={self.pinned}"
        return Place(loader="train_dataloader", note=self.dataset + ("" if self.workers is None else known))


@dataclass
class StepTimes:
    """The median step.

    Args:
        waited: seconds from the end of a batch to the start of the next one.
        computed: seconds.
        steps: how many were measured.
        slow: the function of the project in which most of the loading is done, and what it calls for that.
        samples: of a batch, None where that is not known.
    """

    waited: float
    computed: float
    steps: int
    loader: Loader = field(default_factory=lambda: Loader("Dataset"))
    slow: Place = NOWHERE
    samples: int | None = None

    @property
    def share(self) -> float:
        return self.waited / (self.waited + self.computed)


@dataclass
class RepeatedWork:
    """What is made once more for every sample, though it comes out the same.

    Args:
        function: that makes it.
        share: of the time of loading.
        waiting: share of the median step that waits for data.
        place: of the line that calls it.
    """

    function: str
    share: float
    waiting: float
    place: Place = NOWHERE


@dataclass
class TableReads:
    """What a dataset reads from tables of pandas for each sample.

    Args:
        share: of the time of loading.
        waiting: share of the median step that waits for data.
        place: of the function that reads most of it.
    """

    share: float
    waiting: float
    place: Place = NOWHERE


@dataclass
class Hook:
    """The hook of the project's own, beside the step, that takes most of the time between two batches.

    Args:
        share: of that time, without that of loading.
        place: of the hook.
    """

    share: float
    place: Place = NOWHERE
