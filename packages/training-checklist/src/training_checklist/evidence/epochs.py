"""What changes between two epochs."""

from dataclasses import dataclass

from training_checklist.finding import NOWHERE, Place


@dataclass
class EpochOrders:
    """What a sampler has drawn in the epochs that were watched.

    Args:
        batches: by epoch, of each batch its positions in the dataset, as text.
        sampler: that draws them, and not in the order of the dataset.
        draws: whether it keeps a seed, a generator or an epoch, by which it could draw another order each time.
        place: of the loader.
    """

    batches: list[list[str]]
    sampler: str
    draws: bool
    place: Place = NOWHERE


@dataclass
class ChangedDataset:
    """Plain attributes of the training set that change between two epochs, and not by loading.

    Args:
        changes: "strength: 0.0 -> 0.1".
        workers: of its loader.
        persistent: whether these live through all epochs, each with its own copy.
        place: of the loader, and of the hooks that run in between.
    """

    changes: list[str]
    workers: int
    persistent: bool
    place: Place = NOWHERE
