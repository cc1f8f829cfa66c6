"""What two epochs show from outside: modes of layers, and logged values that are not what their name says."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place

Series = list[tuple[float, int]]  # a batch's value and its number of samples


@dataclass
class Modes:
    """Layers that behave differently in training and in validation, by the mode that they were in.

    Args:
        live: in training mode during validation.
        asleep: in eval mode while they train, together with what is around them.
        put_to_sleep: the line of the project that has put the first of them into eval mode.
        others: likewise, in training mode: the layers that are not asleep.
        drops: where dropout is at work during validation.
        few: norms with the numbers of samples and of values for each channel in the first batch.
        shared: whether other ranks have their own part of the batch.
        unmoved: norms that evaluate by running statistics of 0 and 1, and have weights that are not those of the start.
    """

    live: list[str] = field(default_factory=list)
    asleep: list[str] = field(default_factory=list)
    put_to_sleep: Place = NOWHERE
    others: list[str] = field(default_factory=list)
    drops: list[Place] = field(default_factory=list)
    few: dict[str, tuple[int, int]] = field(default_factory=dict)
    shared: bool = False
    unmoved: list[str] = field(default_factory=list)


@dataclass
class WeightsOverValidation:
    """The parameters before validation, during it, and when training goes on.

    Args:
        changed: those that training goes on with as validation had them, and not as they were before.
        total: how many there are.
        place: of hooks around validation that the project has.
    """

    changed: list[str]
    total: int
    place: Place = NOWHERE


@dataclass
class Validated:
    """What validation has seen of its first batch, by epoch.

    Args:
        answers: digest of what each outermost module with parameters has returned, by its path.
        batches: digest of the batch.
        weights: digest of all parameters.
    """

    answers: list[dict[str, str]] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)


@dataclass
class Norm:
    """One BatchNorm that trains.

    Args:
        momentum: None: its statistics are the mean of all batches.
        tracks: whether it keeps running statistics.
        is_new: whether these are still what it was made with.
        batches: of the whole training.
    """

    path: str
    momentum: float | None
    tracks: bool
    is_new: bool
    batches: float


@dataclass
class Logged:
    """A value that validation has logged at the end of an epoch.

    Args:
        kind: of the series: "loss" or "accuracy".
        epochs: of each epoch so far the value of each batch.
    """

    name: str
    value: float
    kind: str
    epochs: list[Series]


@dataclass
class LeftInEval:
    """A call of eval() amid training for which no train() follows; "" where there is none."""

    call: str
    place: Place = NOWHERE


@dataclass
class MeanOfBatches:
    """A value of each batch that validation logs, so that the mean of them is kept.

    Args:
        name: as it is logged.
        function: that makes it: "MulticlassF1Score", "sqrt".
        mean: over batches, each as often as it has samples.
        whole: the same function's value for all samples.
        place: of the line that logs it.
    """

    name: str
    function: str
    mean: float
    whole: float
    batches: int
    place: Place = NOWHERE


@dataclass
class MetricState:
    """A metric when its value is computed.

    Args:
        known: updates that it held when the epoch began.
        batches: that have come since.
        held: updates that it holds now.
    """

    path: str
    type: str
    stage: str
    known: int
    batches: int
    held: int

    @property
    def is_mixed(self) -> bool:
        """Whether it has begun an epoch with what another one has left."""
        return self.known > 0 and self.held >= self.known + self.batches


@dataclass
class MetricArguments:
    """What a metric makes of predictions and targets of one batch, and of the same two exchanged.

    Args:
        first: place in the batch of what it is given as predictions, "" where they are no part of the batch.
        second: likewise of the targets.
        value: as it is asked; exchanged: the other way round. None where that cannot be computed.
    """

    path: str
    type: str
    first: str
    second: str
    value: float | None = None
    exchanged: float | None = None
    place: Place = NOWHERE


@dataclass
class RankedScores:
    """What a metric that ranks samples by their scores was given: an area under a curve, an average precision.

    Args:
        distinct: different scores, at most, of one class in one batch.
        samples: of all batches.
        beyond: how many batches had scores below 0 or above 1; within: how many had none.
        lowest: score of all.
    """

    path: str
    type: str
    distinct: int
    samples: int
    beyond: int = 0
    within: int = 0
    lowest: float = 0.0
    place: Place = NOWHERE


@dataclass
class InferredSizes:
    """How many samples Lightning takes full batches of validation for.

    Args:
        names: of what is logged without batch_size=, with the place.
        inferred: the sizes, of each batch.
        samples: that they have.
        answered: first dimensions of what the module returns, or its outermost parts where a step calls only these.
    """

    names: dict[str, Place] = field(default_factory=dict)
    inferred: list[int] = field(default_factory=list)
    samples: int = 0
    answered: set[int] = field(default_factory=set)


@dataclass
class PlainState:
    """What one update of a metric of the project changes beside the states that it has registered.

    Args:
        changed: names of attributes; the class has no reset of its own, which could clear them.
        place: of its `update`.
    """

    path: str
    type: str
    changed: list[str]
    place: Place = NOWHERE


@dataclass
class EpochLength:
    """Training batches of the epochs that were watched.

    Args:
        asked: of each epoch.
        done: by epoch, those of which a step was made.
        ended: whether training was told to stop.
        hooks: the project's own that can end an epoch.
    """

    asked: float
    done: list[int]
    ended: bool = False
    hooks: Place = NOWHERE


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
