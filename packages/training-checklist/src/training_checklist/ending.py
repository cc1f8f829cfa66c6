"""How a run ends that a debug item has examined. Nothing here imports torch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import CompactHydraException

OF_CHECKLIST = "TRAINING_CHECKLIST"  # holds the directory that an item's process writes to
AMONG_ALL = "TRAINING_CHECKLIST_ALL"  # set for an item that nobody has asked for by its name


class CheckFailed(CompactHydraException):
    """A check has failed. Hydra prints the message without a traceback and exits with 1."""


class ToolError(CompactHydraException):
    """This package itself has failed. The command exits with 2."""


class FitEnded(Exception):
    """Training, which is all that a check asks for, is over. Ends the training function; a success."""


class ExitCalled(Exception):
    """Code of the project has called `exit()` in training. Raised from the SystemExit, which ends Python itself."""


class Refused(CompactHydraException):
    """Debug items that cannot be run as they were asked for. Shown like `CheckFailed`, without a report."""


def launched_rank() -> int:
    """Return the rank that a launcher gave this process, 0 where none did."""
    return int(next((os.environ[name] for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID") if name in os.environ), 0))


@contextmanager
def exits_are_errors() -> Iterator[None]:
    """Let an `exit()` of the project's code be an exception of its own, for the report.

    Raises:
        ExitCalled: from the SystemExit. What a signal raises, such as Lightning's SIGTERMException, goes on as it is.
    """
    try:
        yield
    except SystemExit as ended:
        if type(ended) is not SystemExit:
            raise
        raise ExitCalled(f"exit({'' if ended.code is None else repr(ended.code)})") from ended
