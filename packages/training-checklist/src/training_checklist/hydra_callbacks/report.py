"""The door through Hydra: what the experiments of a job come to, as a report and an exit code.

Nothing here imports torch: the command does so when `Starter` has set the variables that torch reads then.
"""

import os
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import TaskFunction
from hydra.utils import get_class
from omegaconf import DictConfig, open_dict, read_write
from training_config.processes import device_count, needs_processes
from training_config.secret_values import secret_values

from training_checklist import session
from training_checklist.diagnosis.config_place import with_origin
from training_checklist.ending import CheckFailed, FitEnded, Refused, ToolError, launched_rank
from training_checklist.engines.own_code import back_to_root, is_tool_error
from training_checklist.engines.own_config import own_config
from training_checklist.finding import ERROR, FAILED, Finding, Verdict
from training_checklist.group import CHECKLIST
from training_checklist.hydra_callbacks.door import exits_end_the_job, look_instead_of_job, look_instead_of_jobs
from training_checklist.hydra_callbacks.one_device import without_fp16
from training_checklist.reporting.files import masked, with_code, write_report
from training_checklist.reporting.notes import notes_on
from training_checklist.reporting.ranks import (
    OWNER,
    inherits,
    merge,
    rank_file,
    read_ranks,
    this_process,
    write_rank,
)
from training_checklist.reporting.terminal import print_report
from training_checklist.reporting.wording import command, with_commands
from training_checklist.settings import read_settings
from training_checklist.starting.arguments import same
from training_checklist.starting.check import CHECK_FAILED, OWN_PLACES, TOOL_FAILED, Check, refuse, refused_by
from training_checklist.starting.placement import Asked, changes_directory, is_item, own_folder, settle
from training_checklist.starting.shape import asked_of_trainers, limits, shape

OF_TESTS = "limit_test_batches"


class Report(Callback):
    """Hydra's callback that has a job's experiments run in a process of their own, and reports what they come to.

    In the command that is typed it starts that process in the place of the job; in that process it writes the report.

    Args:
        items: each item that is on, with what it asks.
        one_device: whether they want a single process, also where the command line asks for several.
        whole: whether they watch the user's own training, which the command itself runs then, to its end.
        limits_of: the items whose limits it has, in a trial without them; of none, the project's own.
        stages: whether further stages follow training in such a trial, or nothing; None: what the script does then.
        whole_tests: whether tests are as long in such a trial as the project has them.
        limited: whether the Trainer is given limits in the place of `fast_dev_run`, which the project refuses.
    """

    def __init__(
        self,
        items: dict[str, str],
        one_device: bool = False,
        whole: bool = False,
        limits_of: list[str] | None = None,
        stages: bool | None = False,
        limited: bool = False,
        whole_tests: bool = False,
    ) -> None:
        self.items, self.one_device, self.whole = dict(items), one_device, whole
        self.limits_of = list(self.items if limits_of is None else limits_of)
        self.stages, self.limited = stages, limited
        self.whole_tests = whole_tests
        self.forms_group = False  # as the project's config has its Trainer, where no group of items has changed that

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        if is_item():
            self._prepare(config)
            exits_end_the_job()
        elif not self.whole:
            look_instead_of_job(self._look)

    def _prepare(self, config: DictConfig) -> None:
        try:
            settle(config)
            if self.stages is not None:
                shape(config, self.limits_of)
            self._log_inside(config)
            if self.one_device:
                self.forms_group = needs_processes(config.get("trainer"))
                without_fp16(config)
        except Exception as error:  # Hydra would make a warning of it, and go on to train where the project does
            from training_checklist.diagnosis.diagnose import print_traceback

            print_traceback(error)
            raise SystemExit(TOOL_FAILED) from None

    def _log_inside(self, config: DictConfig) -> None:
        """Let the job log into the check's directory, also where the project's log lies outside of its runs'.

        Other runs may append to that one meanwhile.
        """
        from training_checklist.engines.inside import place_of

        run = Path(config.hydra.run.dir).absolute()
        with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
            config.hydra.runtime.output_dir = str(run)  # as Hydra does next, for what is made of it
        HydraConfig.instance().set_config(config)
        enters = changes_directory(config)  # before it logs
        with read_write(config.hydra):
            for handler in (config.hydra.job_logging.get("handlers") or {}).values():
                if handler.get("filename") is not None:
                    file = run / handler.filename if enters else handler.filename
                    handler.filename = place_of(file, own_folder(config))
                    Path(handler.filename).parent.mkdir(parents=True, exist_ok=True)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        if not self.whole:
            look_instead_of_jobs(self._look)

    def _look(self, config: DictConfig, task: TaskFunction, asked: Asked) -> int:
        """Have the items run, with the user's terminal; return the exit code."""
        check = Check(config, task, asked)
        outcome = check.judged(self.items, same(config), check.folder, None, None)
        if outcome.refused:
            print(outcome.refused, file=sys.stderr)
            return CHECK_FAILED
        return check.report(outcome.verdicts, outcome.crashed)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.settings = refuse(*read_settings(config))
        self.experiments = session.begin(self.settings)
        self.started = time.monotonic()
        if all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID")):
            os.environ.setdefault(OWNER, this_process())
        self.owner = os.environ.get(OWNER) == this_process()

        self.given = ExitStack()
        from training_checklist.engines.config_reads import recorded_reads
        from training_checklist.engines.inside import writing_inside
        from training_checklist.engines.loads import recorded_loads
        from training_checklist.experiments.experiment import every_trainer

        if is_item():
            own = OWN_PLACES in (*self.items, *self.limits_of)
            here = Path(config.hydra.runtime.cwd)
            self.given.enter_context(writing_inside(own_folder(config), services_only=own, here=here))
        parts, arguments = self._asked(config)
        refuse_two_lengths(config, parts)
        self.given.enter_context(every_trainer(parts, arguments, self.forms_group))
        self.given.enter_context(recorded_loads(self.items))
        self.given.enter_context(recorded_reads(self.items))

    def _asked(self, config: DictConfig) -> tuple[dict[str, Any], dict[str, Any]]:
        parts, arguments = asked_of_trainers(config, self.limits_of)
        if self.one_device:  # the config stays as the project's code reads it
            arguments |= {"devices": 1, "strategy": "auto"}
        if self.limits_of != list(self.items):
            target = "training_checklist.experiments.without.Without"
            parts = {"debug_without": {"_target_": target, "stages": bool(self.stages), "ends": self.stages is False}}
            arguments = {OF_TESTS: 1, **limits(arguments)}
            arguments = {name: each for name, each in arguments.items() if name != OF_TESTS or not self.whole_tests}
        elif self.limited:
            arguments |= {**limits(arguments), "fast_dev_run": False}
        return parts, arguments

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        from training_checklist.diagnosis.diagnose import print_traceback

        try:
            self._report(config, job_return)
        except Exception as error:  # Hydra would make a warning of it, and a success of the job
            job_return.status = JobStatus.FAILED
            job_return.return_value = ToolError(f"training-checklist itself failed: {type(error).__name__}: {error}")
            print_traceback(error)
        finally:
            self.given.close()
            if self.owner:
                del os.environ[OWNER]

    def on_run_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """End with the exit code itself: Hydra would call it an error of the job, and repeat it."""
        if self.owner:
            end_with_exit_code(job_return._return_value)

    def _report(self, config: DictConfig, job_return: JobReturn) -> None:
        from training_checklist.diagnosis.diagnose import diagnose, print_traceback
        from training_checklist.judging import cause, conclude, crashed, judge

        error = job_return._return_value if job_return.status == JobStatus.FAILED else session.ended_with()
        chain = [] if error is None else back_to_root(error)  # the project may have wrapped it
        if any(isinstance(each, FitEnded) for each in chain):
            error, job_return.status, job_return.return_value = None, JobStatus.COMPLETED, None
        refusal = cause(error, Refused)
        if refusal is not None:
            job_return.return_value = refusal
            return
        folder = own_folder(config)
        unasked = error is not None and any(each.is_over for each in self.experiments) and not is_tool_error(error)
        over = unasked or any(each.fitted for each in self.experiments)
        if error is None or over:  # what comes after training takes nothing away from what was seen in it
            conclude(self.experiments, folder)
        verdicts = judge(self.items, error, self.started)
        if error is not None and self._is_alone():
            verdicts = [replace(each, findings=[*map(met_alone, each.findings)]) for each in verdicts]
        crashes = [crashed(each, diagnose(each), True) for found in self.experiments for each in found.crashes]
        if error is not None and not any(each.has_raised(error) for each in self.experiments):
            last = [verdict.findings[-1] for verdict in verdicts if verdict.findings]
            crashes.append(crashed(error, last[0] if last else None, over, unasked))
        for verdict in verdicts:
            findings = [with_origin(finding, config) for finding in verdict.findings]
            verdict.findings = [with_commands(finding, verdict.item, config) for finding in findings]
        secrets = secret_values(config)
        verdicts = [masked(with_code(verdict), secrets) for verdict in verdicts]
        (folder / "debug").mkdir(exist_ok=True)
        if not self.owner and not inherits(folder / "debug"):
            rank = self.experiments[0].rank if self.experiments else launched_rank()
            write_rank(rank_file(folder, rank), verdicts)
            return
        others = max((each.world_size for each in self.experiments), default=1) - 1 if error is None else 0
        ranks = read_ranks(folder, others)
        if ranks:
            built = {each.item for each in self.experiments}
            verdicts = [merge(verdict, ranks, verdict.item in built) for verdict in verdicts]
        notes = notes_on(verdicts, self.settings)
        write_report(folder / "debug", verdicts, notes, self.settings.rules, error is not None, [*map(asdict, crashes)])
        if error is not None and not ranks and cause(error, CheckFailed) is None:
            print_traceback(error)
        if not is_item():  # whoever has started it prints them
            print_report(verdicts, folder / "debug", notes)
        end_job(job_return, verdicts, error)

    def _is_alone(self) -> bool:
        """Whether this run is of one process, where the project's own command asks for several."""
        config = own_config() if self.one_device else None
        trainer = None if config is None else config.get("trainer")
        # A strategy of several processes may be asked for with one device.
        return needs_processes(trainer) and (device_count(trainer, 2) > 1 or int(trainer.get("num_nodes") or 1) > 1)


def refuse_two_lengths(config: DictConfig, parts: dict[str, Any]) -> None:
    """End the process where two of some experiments, by their keys in `callbacks`, decide how long the run lasts."""
    targets = {key: get_class(part["_target_"]) for key, part in parts.items() if part}
    items = [each.item for each in targets.values() if getattr(each, "shapes_run", False)]
    if len(items) > 1:
        refused_by(
            f"{items[0]} and {items[1]} cannot share a run: each of them decides how long it lasts; run them one after "
            f"the other, or everything with {command(config, CHECKLIST)}"
        )


def met_alone(finding: Finding) -> Finding:
    """Return an exception that may come of the one process that an item has made of several as what may follow."""
    why = f"{finding.why}; the item ran in one process, and the command asks for several: there it may not arise"
    return replace(finding, symptom=True, why=why) if finding.rule.startswith("crash/") else finding


def end_job(job_return: JobReturn, verdicts: list[Verdict], error: Exception | None) -> None:
    """Let a job end as its verdicts say."""
    failed = [verdict for verdict in verdicts if verdict.status == FAILED]
    broken = [verdict for verdict in verdicts if verdict.status == ERROR]
    if broken:
        told = "; ".join(f"{verdict.item}: {(verdict.error or '').splitlines()[0]}" for verdict in broken)
        job_return.status, job_return.return_value = JobStatus.FAILED, ToolError(f"training-checklist failed: {told}")
    elif failed or error is not None:
        told = "; ".join(f"{verdict.item} failed: {verdict.counted[0].what.splitlines()[0]}" for verdict in failed)
        job_return.status, job_return.return_value = JobStatus.FAILED, CheckFailed(told)


def end_with_exit_code(error: Any) -> None:
    """End the process where a job has ended by one of this package's exceptions."""
    if isinstance(error, Refused):
        refused_by(str(error))
    if isinstance(error, ToolError):
        raise SystemExit(TOOL_FAILED)
    if isinstance(error, CheckFailed):
        raise SystemExit(CHECK_FAILED)
