"""What a job's config says, and where it comes from."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class BeatenValue:
    """A value that one source gave to a key and a later one took away again.

    Args:
        value: the final one, as an override writes it.
        wanted: the one that was beaten.
        by: who says the beaten one: "experiment=base", or a file.
        chosen: whether the user chose that source on the command line; else it is the main file.
        order: how the defaults list would have to be.
    """

    key: str
    value: str
    wanted: str
    by: str
    chosen: bool
    order: str
    place: Place = NOWHERE


@dataclass
class MisplacedFile:
    """A file whose keys lie at the top of the config elsewhere, and here below its group.

    Args:
        keys: its keys that also exist at the top.
        kept: the value that the first of them keeps there.
    """

    option: str
    package: str
    file: str
    keys: list[str]
    kept: str


@dataclass
class MissingValue:
    """A `???` that nothing has filled, with the default of the argument that it is for, if that has one."""

    key: str
    default: str | None = None
    of: str = ""
    place: Place = NOWHERE


@dataclass
class Unresolved:
    """An interpolation that leads nowhere.

    Args:
        raw: as written.
        message: of OmegaConf.
        variable: of the environment that it asks for, or "".
        near: keys like those that it names.
    """

    key: str
    raw: str
    message: str
    variable: str = ""
    near: list[str] = field(default_factory=list)
    place: Place = NOWHERE


@dataclass
class Target:
    """A `_target_`, and how its node fits its signature.

    Args:
        key: of the target itself.
        problem: why nothing can be built from it: "cannot be imported: ...", "" where something can.
        lacks: required arguments that nobody gives.
        supplied: whether whoever builds it supplies them, so that `_partial_` is what is missing.
    """

    key: str
    target: str
    problem: str = ""
    lacks: list[str] = field(default_factory=list)
    supplied: bool = False
    place: Place = NOWHERE


@dataclass
class Argument:
    """A key that is given to a callable.

    Args:
        callee: its name.
        fits: whether it has such an argument; `**kwargs` takes what it has not.
        swallowed: whether `**kwargs` takes it.
        near: the arguments that are called almost like it.
        takes: all arguments, for the message.
        wanted: what should stand there instead of a text: "a number"; "" where the text may be meant.
        meant: the value that the text seems to mean, as an override writes it.
        why: that something else is wanted.
    """

    key: str
    value: str
    callee: str = ""
    fits: bool = True
    swallowed: bool = False
    near: list[str] = field(default_factory=list)
    takes: list[str] = field(default_factory=list)
    wanted: str = ""
    meant: str = ""
    why: str = ""
    place: Place = NOWHERE


@dataclass
class NoneText:
    """A text of a value `None`; "" where there is none."""

    key: str
    place: Place = NOWHERE


@dataclass
class BatchLimit:
    """A whole number 1 for the batches to train on in an epoch; "" where there is none.

    Args:
        epochs: of the run, None where no number of them is given.
    """

    key: str
    epochs: int | None = None
    place: Place = NOWHERE


@dataclass
class ValidationInterval:
    """How often a Trainer validates within an epoch.

    Args:
        value: of val_check_interval: a whole number of batches, or a share of an epoch.
    """

    key: str
    value: int | float
    place: Place = NOWHERE


@dataclass
class ValidationEpochs:
    """Every how many epochs a Trainer validates, and the epochs of the run."""

    key: str
    every: int
    epochs: int
    place: Place = NOWHERE


@dataclass
class Leftover:
    """A setting of the Trainer that is for looking for mistakes, and is on in a training; "" where there is none.

    Args:
        value: as the config has it.
        does: what it makes of a training.
    """

    key: str
    value: str = ""
    does: str = ""
    place: Place = NOWHERE


@dataclass
class SavingInterval:
    """A ModelCheckpoint that saves every so many epochs, and the epochs of the run."""

    key: str
    every: int
    epochs: int
    place: Place = NOWHERE


@dataclass
class Monitor:
    """What a callback watches.

    Args:
        owner: key of the callback.
        kind: its class.
        mode: "min" or "max".
        mode_given: whether the config says so.
        better: "max" or "min" by the monitor's name, None where that does not tell.
        logged: names that the code logs, as patterns shown to people; None where that is not known.
        is_logged: whether the monitor is among them.
    """

    owner: str
    kind: str
    monitor: str
    mode: str | None = None
    mode_given: bool = False
    better: str | None = None
    logged: list[str] | None = None
    is_logged: bool = True
    place: Place = NOWHERE


@dataclass
class UnreadKey:
    """A key that no code names and no interpolation leads to.

    Args:
        added: whether the command line added it.
        near: a key beside it that is called almost like it, or "".
    """

    key: str
    added: bool = False
    near: str = ""
    place: Place = NOWHERE
