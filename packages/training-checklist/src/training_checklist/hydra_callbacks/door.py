"""What happens in the place of a job for which items are asked: its training function is never entered here."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra._internal import hydra as hydra_module
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from training_config.secret_values import redact_text, secret_values

from training_checklist.ending import CheckFailed, ToolError
from training_checklist.engines.own_code import pass_on
from training_checklist.starting.check import TOOL_FAILED
from training_checklist.starting.placement import Asked

Look = Callable[[DictConfig, TaskFunction, Asked], int]


def code_of(look: Look, config: DictConfig, task: TaskFunction, asked: Asked) -> int:
    """Return the exit code of `look`; what it raises is a mistake of this package, and told as that."""
    try:
        return look(config, task, asked)
    except Exception as error:
        from training_checklist.diagnosis.diagnose import print_traceback  # torch, which `Starter` imports

        print_traceback(error)
        told = redact_text(f"{type(error).__name__}: {error}", secret_values(config))
        print(f"training-checklist itself failed: {told}", file=sys.stderr)
        return TOOL_FAILED


def look_instead_of_job(look: Look) -> None:
    """Have the run that Hydra is about to start end with the exit code of `look`, called where the user is."""
    run_job = hydra_module.run_job

    def instead(task_function: TaskFunction, config: DictConfig, *_: Any, **__: Any) -> None:
        hydra_module.run_job = run_job
        raise SystemExit(code_of(look, config, task_function, Asked.of(config)))

    hydra_module.run_job = instead


def exits_end_the_job() -> None:
    """Have an exit of the training function end the run that Hydra is about to start, and not the process unreported.

    One with an exit code is an exception like any other.
    """
    run_job = hydra_module.run_job

    def instead(task_function: TaskFunction, *arguments: Any, **options: Any) -> JobReturn:
        hydra_module.run_job = run_job

        def task(cfg: DictConfig) -> Any:
            try:
                return pass_on(task_function, cfg)
            except SystemExit as stop:
                if stop.code:
                    raise RuntimeError(f"the training function ends the process: sys.exit({stop.code!r})") from stop
                return None

        return run_job(task, *arguments, **options)

    hydra_module.run_job = instead


def look_instead_of_jobs(look: Look) -> None:
    """Have every job of the sweep that Hydra is about to start consist of `look`."""
    plugins = Plugins.instance()

    def instead(hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> Sweeper:
        del plugins.instantiate_sweeper
        ours = __package__.partition(".")[0]
        callbacks = hydra_context.callbacks.callbacks
        callbacks[:] = [each for each in callbacks if not type(each).__module__.startswith(f"{ours}.")]
        task = LookingTask(look, task_function)
        return plugins.instantiate_sweeper(hydra_context=hydra_context, task_function=task, config=config)

    plugins.instantiate_sweeper = instead


class LookingTask:
    """A training function that looks and does not train.

    Raises:
        CheckFailed: something was found, which ends the job as an exception of its own would.
        ToolError: this package has failed.
    """

    def __init__(self, look: Look, task: TaskFunction) -> None:
        self.look, self.task = look, task
        self.folders: set[str] = set()  # of the jobs so far

    def __call__(self, cfg: DictConfig) -> None:
        config = HydraConfig.instance().cfg
        folder = config.hydra.runtime.output_dir
        raw = OmegaConf.to_container(config.hydra.sweep, resolve=False)["subdir"]
        asked = Asked(str(raw), Path(folder), in_sweep=True, shared=folder in self.folders)
        self.folders.add(folder)
        code = code_of(self.look, config, self.task, asked)
        if code:
            kind = ToolError if code == TOOL_FAILED else CheckFailed
            raise kind("see the report above")
