"""How loaders read their datasets."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.shapes import Reshape


@dataclass
class LoaderSize:
    """What a loader makes of its dataset in an epoch.

    Args:
        stage: "train", "val" or "test".
        samples: of the dataset.
        fixed: whether every epoch has the same order.
    """

    stage: str
    samples: int
    batches: int
    batch_size: int | None
    drop_last: bool
    fixed: bool
    place: Place = NOWHERE


@dataclass
class Order:
    """The indices that a sampler draws in an epoch, or as many as were looked at.

    Args:
        sampler: name of its class.
        samples: of the dataset.
        drawn: indices in all.
        distinct: different ones.
        new: different ones in the second half that were not in the first.
        ascending: whether each is at least as large as the one before.
        plain: whether a sampler of single samples makes it: others may draw the same sample for several tasks.
    """

    sampler: str
    samples: int
    drawn: int
    distinct: int
    new: int
    ascending: bool
    plain: bool = True
    place: Place = NOWHERE


@dataclass
class Orders:
    """The orders of the training set, and of what is held out."""

    train: Order | None
    held_out: list[Order] = field(default_factory=list)


@dataclass
class Neighbours:
    """How alike samples are that follow one another, where training reads them in the order of the dataset.

    Args:
        sampler: name of its class.
        shares: of the variance that lies between runs of a few samples, by place in the batch: 0 of samples that come
            in any order.
        samples: that were looked at.
    """

    sampler: str
    shares: dict[str, float]
    samples: int
    place: Place = NOWHERE


@dataclass
class ShortBatch:
    """A step with as few samples as the last batch of an epoch has.

    Args:
        samples: of that batch.
        usual: samples of the others, with which the same step has worked.
        error: what the step has raised, None where it worked too.
        place: of the error.
    """

    samples: int
    usual: int
    error: str | None
    place: Place = NOWHERE


@dataclass
class SampleSizes:
    """Samples that make no batch.

    Args:
        indices: of samples by the size of their largest tensor, "3x224x224".
        error: of the loader.
    """

    indices: dict[str, list[int]]
    error: str
    place: Place = NOWHERE


@dataclass
class Reloaded:
    """Samples of a held-out split, loaded twice.

    Args:
        samples: how many.
        differ: how many have other inputs the second time.
        random_targets: whether their targets differ too.
        classifies: whether a classification's criterion is trained with them.
        larger: whether an input has more numbers than a target.
    """

    samples: int
    differ: int
    random_targets: bool
    classifies: bool
    larger: bool
    place: Place = NOWHERE


@dataclass
class SplitFails:
    """A split that the run does not need cannot be loaded."""

    error: str
    place: Place = NOWHERE


@dataclass
class BytesRead:
    """What loading a few samples again reads from files, beside what it gives.

    Args:
        read: bytes a sample.
        given: bytes a sample, of tensors and arrays.
        place: of the dataset's `__getitem__`.
    """

    samples: int
    read: int
    given: int
    place: Place = NOWHERE


@dataclass
class SetUpAgain:
    """The training set before and after setup("test").

    Args:
        differs: whether it holds other samples at the same positions; None where that cannot be told.
        place: of the DataModule's setup.
        generated: whether the two have no sample in common: they were made anew, and not split anew.
    """

    differs: bool | None
    place: Place = NOWHERE
    generated: bool = False


@dataclass
class Company:
    """Samples of a split that are loaded together, and then each alone.

    Args:
        leaf: place in the batch.
        differ: how many are other samples then, but for padding and order.
    """

    leaf: str
    samples: int
    differ: int
    place: Place = NOWHERE


@dataclass
class History:
    """Samples of the training set, loaded in two orders from copies of it, with the same random numbers each time.

    Args:
        unsteady: how many were others when they were loaded a second time at once.
        moved: how many were others in the other order.
        changed: what the dataset keeps otherwise since: "Windows.sales".
        hidden: whether samples are random in a way that cannot be held still.
        marked: how many were others, with the same random numbers, after they had been loaded with other ones.
        frozen: how many of these were what those other ones had made.
    """

    samples: int
    unsteady: int
    moved: int
    changed: list[str] = field(default_factory=list)
    hidden: bool = False
    marked: int = 0
    frozen: int = 0
    place: Place = NOWHERE


@dataclass
class Collated:
    """What a collate function has made of a few samples.

    Args:
        apart: places of the batch that have the samples in different orders, and how many samples that concerns.
        scrambled: places that have the numbers of each sample in another arrangement.
    """

    samples: int
    apart: list[tuple[str, str, int]] = field(default_factory=list)
    scrambled: list[str] = field(default_factory=list)
    place: Place = NOWHERE


@dataclass
class Reseeded:
    """Samples whose random numbers begin anew each time.

    Args:
        samples: that were loaded.
        seed: with which all of them begin; None where they do not.
        place: of the line that seeds, or of what it draws.
    """

    samples: int
    seed: int | None
    place: Place = NOWHERE


@dataclass
class LoadedReshapes:
    """Reshapes to the shape of a transpose, of arrays or tensors, while samples are loaded; once a line."""

    calls: list[Reshape] = field(default_factory=list)


@dataclass
class Wrapped:
    """Whole numbers out of the range of their type, in the code that loads samples.

    Args:
        type: "uint8"; "" where there were none.
        low, high: the range that they would have had.
        place: of the line.
    """

    type: str
    low: float = 0.0
    high: float = 0.0
    place: Place = NOWHERE


@dataclass
class FrozenAugmentation:
    """Samples that begin their random numbers with one seed each, whatever the run's own seed is.

    Args:
        samples: that were loaded.
        distance: of a sample from itself with another such seed, beside that of two samples; None where no line seeds
            so, or where they cannot be compared.
        steady: whether samples are the same each time.
        place: of the line that seeds.
        numbers: of a sample.
    """

    samples: int
    distance: float | None
    steady: bool | None
    place: Place = NOWHERE
    numbers: int = 0
