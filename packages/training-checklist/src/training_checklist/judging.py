"""What an item came to when its run is over: by its evidence, by an exception, or by a mistake of this package."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from training_checklist import session
from training_checklist.diagnosis.diagnose import diagnose
from training_checklist.ending import CheckFailed
from training_checklist.engines.own_code import (
    back_to_root,
    failed_module,
    frames_of,
    is_own,
    is_tool_error,
    last_frames,
)
from training_checklist.finding import Crashed, Finding, Verdict


def conclude(experiments: Iterable[Any], folder: Path) -> None:
    """Let every experiment judge what can only be judged now. One that fails itself says so; the others still do."""
    for experiment in experiments:
        if experiment.earlier is not None and not experiment.fits:
            continue  # of a Trainer that the project has built, and not used
        try:
            experiment.conclude(folder)
        except Exception as mistake:
            experiment.fail_itself(mistake, experiment.item)


def judge(questions: Mapping[str, str], error: Exception | None, started: float) -> list[Verdict]:
    """Return the verdict of each item, by its name in `questions`.

    Args:
        error: what has ended the run, or None.
        started: when the job began, by `time.monotonic()`.
    """
    if error is not None and is_tool_error(error) and cause(error, CheckFailed) is None:
        return [_failed_itself(item, questions, error) for item in questions]
    return [_judge(item, question, error, started) for item, question in questions.items()]


def _judge(item: str, question: str, error: Exception | None, started: float) -> Verdict:
    experiment, explained = session.find(item), None
    if error is not None and experiment is not None:
        try:
            explanations = (each.explain(error) for each in (*reversed(experiment.further), experiment))
            explained = next(filter(None, explanations), None)
        except Exception as mistake:
            experiment.fail_itself(mistake, f"{item}, asked about {type(error).__name__}")
    verdict = Verdict(item, question) if experiment is None else experiment.verdict(question)
    verdict.seconds = round(time.monotonic() - started if experiment is None else verdict.seconds, 2)
    if error is not None:
        finding = explained or diagnose(error)
        finding = finding if experiment is None else experiment.placed(finding)
        verdict.findings = [*(known for known in verdict.findings if known != finding), finding]
    elif experiment is None:
        verdict.skipped = "no Trainer was built in this run, so that nothing could be looked at"
    return verdict


def _failed_itself(item: str, questions: Mapping[str, str], error: Exception) -> Verdict:
    """Return the verdict where this package has ended the run, in the code of this item or of another one."""
    experiment, module = session.find(item), failed_module(error)
    verdict = Verdict(item, questions[item]) if experiment is None else experiment.verdict(questions[item])
    owners = {name: type(session.find(name)).__module__ for name in questions}
    to_blame = next((name for name, own in owners.items() if module.startswith(own)), next(iter(questions)))
    if item == to_blame:
        verdict.error = f"{item}: {type(error).__name__}: {error}\n{last_frames(error)}"
    elif not verdict.findings:
        verdict.skipped = f"an error of training-checklist itself, in {to_blame}, has ended the run"
    return verdict


def crashed(error: BaseException, finding: Finding | None, after: bool, unasked: bool = False) -> Crashed:
    """Return what is to be known of an exception beyond its process."""
    root = back_to_root(error)[-1]
    frames = frames_of(root)
    own = next((each for each in reversed(frames) if is_own(each.f_code.co_filename)), frames[-1] if frames else None)
    place = "" if own is None else f" in {own.f_code.co_filename}, {own.f_code.co_qualname}"
    told = f"{type(root).__name__}: {(str(root).splitlines() or [''])[0]}"
    rule = ("", "") if finding is None else (finding.rule, finding.what)
    return Crashed(f"{type(root).__name__}{place}", told, rule, after, unasked)


def cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """Return the exception of some kind that `error` is or was caused by, or None."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error
