"""What a run has written, and where."""

from dataclasses import dataclass, field

from training_checklist.finding import NOTHING, NOWHERE, Fix, Place


@dataclass
class OutsideFiles:
    """Files outside the run's directory that one writer has written.

    Args:
        writer: "callbacks.plots (Plots)", "the code".
        paths: from the working directory.
        place: the key that sends them there, or the line that writes them.
        fix: how this writer is sent into the run's directory.
    """

    writer: str = ""
    paths: list[str] = field(default_factory=list)
    place: Place = NOWHERE
    fix: Fix = NOTHING


@dataclass
class RecordFile:
    """A file that Hydra writes about the run: its config, its log.

    Args:
        path: from the working directory, None where the config asks for none.
        inside: whether it lies in the run's directory.
        place: the key that decides.
        inside_path: an override's value that puts it there.
    """

    path: str | None
    exists: bool
    inside: bool
    place: Place = NOWHERE
    inside_path: str = ""


@dataclass
class Checkpoints:
    """What one ModelCheckpoint has left behind.

    Args:
        due: whether it had to write one in this run, by its own arguments.
        paths: that it says it has written.
        empty: those of no bytes.
    """

    due: bool
    paths: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    place: Place = NOWHERE


@dataclass
class RemovedCheckpoint:
    """A checkpoint callback that the config's files have, and the run had not.

    Args:
        key: of the callback; "" where none was taken away.
        folder: where the Trainer's own default has put the checkpoint instead; "" where it keeps none.
    """

    key: str = ""
    folder: str = ""
    place: Place = NOWHERE


@dataclass
class LoggedValues:
    """What has reached the files of one logger.

    Args:
        file: "the event file", "metrics.csv".
        folder: from the working directory.
        count: names of values in it, None where there is no file.
        logged: whether the run has logged anything at all.
        asked: whether the project has asked for the logger, which may also be the Trainer's default.
    """

    file: str
    folder: str
    count: int | None
    logged: bool
    place: Place = NOWHERE
    asked: bool = True


@dataclass
class RunDirectory:
    """How a job got its directory.

    Args:
        path: from the working directory.
        shared: whether another job of this sweep has it, too.
        held: results that lay there when the job began.
        is_working_directory: whether it is the working directory itself.
        constant: whether the next job gets it as well.
        typed: whether the command line names it.
        unique: an override's value that gives every job its own.
    """

    path: str
    shared: bool = False
    held: list[str] = field(default_factory=list)
    is_working_directory: bool = False
    constant: bool = False
    typed: bool = False
    place: Place = NOWHERE
    unique: str = ""


@dataclass
class ResumedFolder:
    """Where a run looks for the last checkpoint that it is to go on from.

    Args:
        found: the checkpoint, None where there is none.
        is_new: whether each run has such a folder of its own, named after the time.
        folder: its path.
        place: of the call of fit.
    """

    found: str | None
    is_new: bool
    folder: str
    place: Place = NOWHERE


@dataclass
class Tested:
    """What the project asks Lightning to test when training is over.

    Args:
        metric: by which checkpoints are chosen.
        as_trained: whether it is the network as the last step leaves it.
        place: of the call.
    """

    metric: str
    as_trained: bool
    place: Place = NOWHERE
