"""A search by Optuna that is started again goes on: it overwrites no job, repeats none, and leaves no trial open."""

import functools
import sys
import warnings
from inspect import unwrap
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from training_runs.records.runs import is_alive


def continue_study(config: DictConfig) -> None:
    """Prepare the sweeper of `config` for what an earlier start has left in the sweep's directory.

    A trial whose job was killed is closed as failed, and its parameters are tried again first. `n_trials` counts those
    that earlier starts have finished, and the sampler draws from another seed than they did.
    """
    sweeper, folder = config.hydra.sweeper, Path(config.hydra.sweep.dir)
    if not str(sweeper.get("_target_")).endswith(".OptunaSweeper"):
        return
    jobs = sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())
    number_jobs_from(jobs[-1] + 1 if jobs else 0)
    if not jobs or sweeper.get("storage") is None:
        return
    alive = [job for job in jobs if is_alive(folder / str(job))]
    if alive:  # an exit, because Hydra only warns of what a callback raises
        sys.exit(f"hydra.sweep.dir={folder} is still running (job {alive[0]}); wait for its end, or stop it first")
    trials = close_trials(sweeper)
    with read_write(config), open_dict(config):
        sweeper.n_trials = max(0, sweeper.n_trials - sum(trial.state.name == "COMPLETE" for trial in trials))
        if isinstance(OmegaConf.select(sweeper, "sampler.seed"), int):
            sweeper.sampler.seed += len(trials)


def close_trials(sweeper: DictConfig) -> list[Any]:
    """Fail the trials that are open, put their parameters first in line, and return all that there are."""
    import optuna

    storage = instantiate(sweeper.storage) if OmegaConf.is_config(sweeper.storage) else sweeper.storage
    try:
        study = optuna.load_study(study_name=sweeper.study_name, storage=storage)
    except KeyError:  # there is none of this name
        return []
    trials = study.trials
    for trial in trials:
        if trial.state == optuna.trial.TrialState.RUNNING:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            with warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
                study.enqueue_trial(trial.params)
    return trials


def number_jobs_from(first: int) -> None:
    """Have the sweeper number its jobs from `first`.

    hydra-optuna-sweeper 1.3.0 begins with 0 at every start; can go when it counts the trials of its study.
    """
    from hydra_plugins.hydra_optuna_sweeper._impl import OptunaSweeperImpl

    original = unwrap(OptunaSweeperImpl.sweep)

    @functools.wraps(original)
    def sweep(self: OptunaSweeperImpl, arguments: list[str]) -> None:
        self.job_idx = first
        original(self, arguments)

    OptunaSweeperImpl.sweep = sweep
