"""Every item of the checklist, one after the other, in one table."""

import os
from dataclasses import replace
from typing import Any

from hydra.experimental.callback import Callback
from hydra.types import TaskFunction
from omegaconf import DictConfig

from training_checklist.ending import AMONG_ALL
from training_checklist.finding import ERROR, INTERRUPTED, REMARK, Finding, Verdict
from training_checklist.hydra_callbacks.door import look_instead_of_job, look_instead_of_jobs
from training_checklist.hydra_callbacks.one_device import without_devices
from training_checklist.reporting.terminal import print_progress
from training_checklist.starting.arguments import replaced
from training_checklist.starting.check import OUTPUT, Check, Outcome
from training_checklist.starting.placement import Asked

SEVERAL = "distributed"  # the item that examines several processes
ALL_STAGES = "fast_dev_run"  # the item whose run goes through all that the program does


class Checklist(Callback):
    """Hydra's callback that runs each item in a process of its own, in the place of the job.

    Args:
        items: names of options of conf/debug/, in their order, each with what must have succeeded before: null, or
            the item without whose training step this one means nothing.
        further: items of the project's own, likewise; they come last.
        only: the items to run, or None for all.
        leave_out: items that are not run, each with the reason, which the report shows.
        seconds: that one item may take before it is ended.
    """

    def __init__(
        self,
        items: dict[str, str | None],
        further: dict[str, str | None],
        only: list[str] | None,
        leave_out: dict[str, str],
        seconds: float,
    ) -> None:
        self.items = {item: needed for item, needed in {**items, **further}.items() if only is None or item in only}
        self.leave_out, self.seconds = dict(leave_out), seconds

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        look_instead_of_job(self._look)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        look_instead_of_jobs(self._look)

    def _look(self, config: DictConfig, task: TaskFunction, asked: Asked) -> int:
        os.environ[AMONG_ALL] = "1"
        return Rows(self, Check(config, task, asked)).report()


class Rows:
    """The items' verdicts, as they come in."""

    def __init__(self, asked: Checklist, check: Check) -> None:
        self.asked, self.check = asked, check
        self.crashed: set[str] = set()
        self.ran_through = False  # whether the program has come to its end, in short

    def report(self) -> int:
        verdicts: list[Verdict] = []
        try:
            for item, needed in self.asked.items.items():
                verdicts.append(self._run(item, needed))
                print_progress(verdicts[-1])
        except (KeyboardInterrupt, SystemExit):  # SystemExit: by a signal
            left = [*self.asked.items][len(verdicts) :]
            self.check.report([*verdicts, *(Verdict(item, "", skipped=INTERRUPTED) for item in left)])
            raise
        return self.check.report(verdicts)

    def _run(self, item: str, needed: str | None) -> Verdict:
        if item in self.asked.leave_out:
            reason = self.asked.leave_out[item]
            return Verdict(item, "", skipped=f"left out by checks.checklist.leave_out: {reason}")
        if needed in self.crashed:
            return Verdict(item, "", skipped=f"not run: training fails before it has come to its end, see {needed}")
        arguments = replaced(self.check.config, item)
        # What several processes are asked for with is meant for training, and for the one item that is about them.
        arguments = arguments if item == SEVERAL else without_devices(arguments)
        place = self.check.folder / item
        outcome = self.check.judged({item: ""}, arguments, place, OUTPUT, self.asked.seconds)
        if any(not crash.after for crash in outcome.crashes) and outcome.crashed and not failed_itself(outcome):
            self.crashed.add(item)
        if item == ALL_STAGES and outcome.told and not (outcome.crashes or outcome.refused or failed_itself(outcome)):
            self.ran_through = True
        for verdict in outcome.verdicts if self.ran_through else ():
            verdict.findings = [self._disproved(each) for each in verdict.findings]
        return outcome.verdicts[0] if outcome.verdicts else Verdict(item, "", skipped=outcome.refused)

    def _disproved(self, finding: Finding) -> Finding:
        """Return a remark in the place of a finding that predicts the end of a program which has not ended so."""
        rule = self.check.settings.rules.get(finding.rule)
        if rule is None or not rule.predicts_crash:
            return finding
        why = (
            f"the program comes to its end all the same: it does not use this, or not so. Where one does, {finding.why}"
        )
        return replace(finding, severity=REMARK, why=why)


def failed_itself(outcome: Outcome) -> bool:
    return any(verdict.status == ERROR for verdict in outcome.verdicts)
