"""A sweep whose jobs run in other processes outlives the loss of one."""

import functools
from importlib import import_module
from inspect import unwrap
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

# By launcher, what it calls for the outcome of each job, as module, owner and name.
WAITS = {
    "RayLauncher": ("ray", "", "get"),
    "LocalLauncher": ("submitit", "Job", "results"),
    "SlurmLauncher": ("submitit", "Job", "results"),
}


def wait_for_all(launcher: str) -> None:
    """Have a launcher, by the name of its class, wait for the jobs after one that was lost and has failed by that."""
    if launcher not in WAITS:
        return
    module, kind, name = WAITS[launcher]
    owner: Any = getattr(import_module(module), kind) if kind else import_module(module)
    wait = unwrap(getattr(owner, name))  # as it was before another sweep of this process

    @functools.wraps(wait)
    def outcome(*arguments: Any) -> Any:
        try:
            return wait(*arguments)
        except Exception as lost:
            failed = JobReturn(status=JobStatus.FAILED, _return_value=lost)
            return [failed] if kind else failed  # submitit returns a list, an outcome for each task of a job

    setattr(owner, name, outcome)
