"""What short trainings of copies have shown: of the first loss, the learning rate, labels and inputs."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place
from training_checklist.rule import CannotJudge

RATE, DECAY, CLIPPING = "optimizer.lr", "optimizer.weight_decay", "trainer.gradient_clip_val"
GAIN = 10  # times as far; nearer together both trainings learn, as with rates that differ by a power of ten


@dataclass
class FirstLoss:
    """The criterion of a classification before training.

    Args:
        mean: of it over the labels of a batch.
        chance: ln C, the loss of who gives every class the same probability.
        classes: C.
        largest: absolute value among the outputs.
    """

    mean: float
    chance: float
    classes: int
    largest: float
    place: Place = NOWHERE


@dataclass
class AddedUp:
    """A loss, and the criterion's mean over all labels of the batch.

    Args:
        loss: that the step returns.
        mean: over all labels.
        parts: into which the batch was cut, each with a call of the criterion of its own.
        labels: in the batch.
        reduction: of the criterion.
        is_sum: whether the loss is the sum of the criterion's results.
        apart: whether no label is in two parts: classes are weighed against one another.
    """

    loss: float
    mean: float
    parts: int
    labels: int
    reduction: str
    is_sum: bool
    apart: bool = False
    place: Place = NOWHERE


@dataclass
class Course:
    """A short training of a copy: as configured, or with one setting changed.

    Args:
        before: mean loss on the batches that it is trained on.
        after: the same after `steps`.
        fall: by which share of `before` it has fallen.
        change: the setting's key, "" as configured.
        value: that is configured.
        given: instead, None for switched off.
    """

    before: float
    after: float
    fall: float
    steps: int
    change: str = ""
    value: float = 0.0
    given: float | None = None

    def __str__(self) -> str:
        return f"{self.before:.4g} -> {self.after:.4g} in {self.steps} steps"


@dataclass
class RangeTest:
    """Trainings of copies until one falls.

    Args:
        asked: as configured.
        tried: with one setting changed.
        min_fall: share of the loss from which on a training counts as one that falls.
        grad_norm: of the first step.
        untold: why this tells nothing, "" where it does.
    """

    asked: Course
    tried: list[Course] = field(default_factory=list)
    min_fall: float = 0.05
    grad_norm: float = 1.0
    untold: str = ""

    def better(self, change: str) -> Course | None:
        """Return the training with a change of this kind that falls, and much further than what was asked for.

        Raises:
            CannotJudge: the loss need not fall.
        """
        if self.untold:
            raise CannotJudge(self.untold)
        if self.asked.fall >= self.min_fall:
            return None
        falls = max(self.min_fall, GAIN * self.asked.fall)
        return next((each for each in self.tried if each.change == change and each.fall >= falls), None)


@dataclass
class NeverFell:
    """Trainings of copies of which none falls, and no other rule knows why.

    Args:
        whole_run: steps of the optimizer in the training that was asked for.
        out_of_time: whether there was no time to try all that might help.
    """

    test: RangeTest
    whole_run: float
    out_of_time: bool = False


@dataclass
class Labels:
    """A copy that has learnt some batches, asked about exchanged labels.

    Args:
        course: its training.
        batches: that it was trained on.
        known: by how many standard deviations of such exchanges the loss rises for samples that it was trained on; Inf
            where that need not be asked.
        unseen: for others.
        learnt: whether the loss has fallen to half.
        untold: why this tells nothing, "" where it does.
    """

    course: Course
    batches: int
    known: float
    unseen: float
    learnt: bool
    untold: str = ""


@dataclass
class Inputs:
    """A copy that does not learn.

    Args:
        effect: of exchanging the labels of the samples that it was trained on, as a share of the loss.
        untold: why this tells nothing, "" where it does.
    """

    effect: float
    untold: str = ""


@dataclass
class Monitor:
    """A metric that something waits for.

    Args:
        who: "EarlyStopping", "ReduceLROnPlateau".
        metric: its name.
        logged: what is.
    """

    who: str
    metric: str
    logged: list[str]


@dataclass
class Chosen:
    """What checkpoints are chosen by, or training is stopped by.

    Args:
        who: "ModelCheckpoint", "EarlyStopping".
        metric: its name.
        validated: what validation logs; empty where nothing is validated.
        in_validation: whether the metric is one of them.
    """

    who: str
    metric: str
    validated: list[str]
    in_validation: bool


@dataclass
class LeastGain:
    """The least change of a metric that counts as a gain.

    Args:
        metric: that EarlyStopping waits for.
        least: its min_delta.
        value: of the metric after two short epochs.
        share: whether it lies between 0 and 1, and more of it is better.
    """

    metric: str
    least: float
    value: float
    share: bool

    @property
    def of_range(self) -> float:
        """The least gain as a share of what can be gained from nothing."""
        return self.least / (1.0 if self.share else max(abs(self.value), 1e-12))


@dataclass
class Length:
    """How long a run is to be.

    Args:
        max_steps: of the optimizer.
        max_epochs: that are asked for, too.
        steps: of the optimizer in an epoch.
    """

    max_steps: int
    max_epochs: int
    steps: float
