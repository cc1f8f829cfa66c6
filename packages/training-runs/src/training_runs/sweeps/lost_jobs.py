"""A sweep whose jobs run in other processes outlives the loss of one."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher

# By launcher, what it calls for the outcome of each job, as module, owner and name.
WAITS = {
    "RayLauncher": ("ray", "", "get"),
    "LocalLauncher": ("submitit", "Job", "results"),
    "SlurmLauncher": ("submitit", "Job", "results"),
}


def launch_all(
    launch: Callable[..., Sequence[JobReturn]], launcher: Launcher, overrides: Sequence[Sequence[str]], first: int
) -> Sequence[JobReturn | Exception]:
    """Return what `launch` returns for each job, and the exception for one whose process was lost.

    Where `launch` itself raises, as joblib's does, which ends all jobs when one is lost, that is it for each of them.
    """
    try:
        with waiting_for_all(type(launcher).__name__):
            return launch(launcher, overrides, first)
    except Exception as error:
        return [error] * len(overrides)


@contextmanager
def waiting_for_all(launcher: str) -> Iterator[None]:
    """Have a launcher wait for the jobs after one that was lost, whose exception is then its outcome."""
    if launcher not in WAITS:
        yield
        return
    module, kind, name = WAITS[launcher]
    owner: Any = getattr(import_module(module), kind) if kind else import_module(module)
    wait = getattr(owner, name)

    @functools.wraps(wait)
    def outcome(*arguments: Any) -> Any:
        try:
            return wait(*arguments)
        except Exception as lost:
            return [lost] if kind else lost  # submitit returns a list, an outcome for each task of a job

    setattr(owner, name, outcome)
    try:
        yield
    finally:
        setattr(owner, name, wait)
