"""What a user reads of an exception that ends a script: what is wrong and the way on, last, and nothing after it.

Hydra 1.3.8 says every override again before a job's exception, the whole search path after an option that is missing,
and ends with advice to see all frames, also where one line says everything. HYDRA_FULL_ERROR=1 still shows it all.
"""

import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from inspect import unwrap
from textwrap import shorten
from typing import Any

from hydra._internal import utils
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from omegaconf.errors import OmegaConfBaseException

READ_BY_LIBRARIES = ("MPL", "TORCH", "PYTORCH", "PL_", "LIGHTNING", "OMP_", "KMP_", "CUDA_", "NUMBA_")


def take_over() -> None:
    """Leave to `message` what Hydra would print of an exception that is a sentence to its user."""
    report = unwrap(utils.run_and_report)

    @functools.wraps(report)
    def run_and_report(job: Callable[[], Any]) -> Any:
        def silently() -> Any:
            try:
                return job()
            except CompactHydraException:
                if os.environ.get("HYDRA_FULL_ERROR") == "1" or sys.gettrace() is not None:
                    raise
                sys.exit(1)  # its context is the exception
            except Exception as error:
                line = of_the_environment(error)
                if line is None or os.environ.get("HYDRA_FULL_ERROR") == "1":
                    raise
                sys.exit(line)

        return report(silently)

    utils.run_and_report = run_and_report
    JobReturn.return_value = property(value, JobReturn.return_value.fset)


def value(job: JobReturn) -> Any:
    """Return what a job has returned, or raise what it has raised, without its overrides on stderr."""
    if job.status == JobStatus.FAILED:
        raise job._return_value
    return job._return_value


def message(error: BaseException | None, hints: Sequence[str]) -> list[str]:
    """Return the lines to end with: Hydra's own in one where `hints` say more, and none where all has been shown."""
    if not isinstance(error, CompactHydraException) or getattr(error, "is_shown", False):
        return list(hints)
    said = str(error).strip().splitlines()
    if hints:
        return [*said[:1], *hints]
    if isinstance(error.__cause__, OmegaConfBaseException):  # its further lines are for those who read OmegaConf
        first = str(error.__cause__).strip().partition("\n")[0]
        said[-1] += "" if first in str(error) else f": {first}"
    return said


def of_the_environment(error: BaseException) -> str | None:
    """Return the line for what a library does not find or take of the environment when it is imported, or None."""
    if isinstance(error, ImportError) and ".so" in str(error):
        return f"a library cannot be loaded ({error}); install it anew, or give this process more memory"
    importing = any(frame.name == "<module>" for frame in traceback.extract_tb(error.__traceback__))
    for name, value in os.environ.items() if importing else ():
        if name.startswith(READ_BY_LIBRARIES) and len(value) > 2 and value in str(error):  # shorter ones are words
            return f"{name}={value} in the environment is refused: {shorten(str(error), 200)}; unset {name}"
    return None
