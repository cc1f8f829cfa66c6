"""A panel on what went wrong, below the traceback of a job that raised. Always on; costs nothing until then."""

import gc
import os
import sys
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

MESSAGE_CHARACTERS = 200


class Diagnosed(CompactHydraException):
    """An exception of a job whose traceback and diagnosis have been shown. Hydra prints its message and exits with 1.

    It does not hold the exception itself, with whose traceback a sweep would keep the model of every failed job.
    """

    is_shown = True  # whoever prints exceptions need not print it again


class ExceptionPanel(Callback):
    """Hydra's callback that shows traceback and diagnosis of what a job raised.

    Where debug items are on, `Report` does that.
    """

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if job_return.status != JobStatus.FAILED or "debug" in config.hydra.callbacks:
            return
        from training_checklist.diagnosis.diagnose import diagnose, plain, print_traceback
        from training_checklist.reporting.wording import with_commands

        error = job_return._return_value
        sentence = plain(error)
        if sentence is not None:
            job_return.return_value = sentence  # without the target and the key that Hydra wraps around it
            return
        # With these Python itself shows the traceback, and a debugger needs the exception.
        as_is = os.environ.get("HYDRA_FULL_ERROR", "0") == "1" or sys.gettrace() is not None
        if not as_is:
            print_traceback(error)
        finding = diagnose(error)
        print_panel(with_commands(finding, None, config))
        if not as_is:
            job_return.return_value = Diagnosed(finding.what.splitlines()[0][:MESSAGE_CHARACTERS])
            del error
            if config.hydra.mode == RunMode.MULTIRUN:
                gc.collect()  # the frames of the traceback hold the model, and the next job needs its memory


def print_panel(finding: Any) -> None:
    """Print a finding to stderr, between two rules: text without borders can be copied."""
    from rich.box import HORIZONTALS
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 1, 0, 0))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(overflow="fold")
    for label, text in (("where", finding.where), ("why", finding.why), ("next", finding.command)):
        rows.add_row(label, Text(text))
    title, _, what = finding.what.partition(": ")
    rank = os.environ.get("RANK")
    heading = title if rank is None else f"rank {rank}: {title}"
    Console(stderr=True).print(Panel(Group(Text(what), rows), title=Text(heading, "bold red"), box=HORIZONTALS))
