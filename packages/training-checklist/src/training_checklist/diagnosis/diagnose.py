"""What an exception means: where in the model it arose, likely causes, and the next step.

Everything is read from the traceback after the fact, so that it costs nothing while training runs.
"""

import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator

from hydra.errors import CompactHydraException, InstantiationException
from training_config.near_names import suggestion
from training_config.secret_values import redact_override

from training_checklist.diagnosis import config_causes, tensor_causes, training_causes
from training_checklist.diagnosis.cause import Cause, find_cause
from training_checklist.diagnosis.crash import Crash, describe
from training_checklist.engines.own_code import is_of_checks, is_own, shorten
from training_checklist.finding import FAILED, Finding, Fix, Place
from training_checklist.reporting.wording import program, without_items

PATTERNS = [*config_causes.PATTERNS, *training_causes.PATTERNS, *tensor_causes.PATTERNS]
MESSAGE_LINES = 6
MESSAGE_CHARACTERS = 600
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal
OMEGACONF_DETAIL = re.compile(r"\s+(full_key: |object_type=|reference_type=)")
RAISED_ELSEWHERE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n\s*(?P<source>.*)')


def diagnose(error: BaseException) -> Finding:
    """Return what is known about an exception. Never raises: that would hide the exception itself."""
    try:
        return _diagnose(error)
    except Exception as mistake:
        return Finding(
            "crash/unknown",
            FAILED,
            f"{type(error).__name__}: {brief(error)}",
            Place(note="see the traceback"),
            f"unknown: the diagnosis itself failed with {type(mistake).__name__}: {mistake}",
            Fix("HYDRA_FULL_ERROR=1 before the same command shows everything that Python knows"),
        )


def plain(error: BaseException) -> CompactHydraException | None:
    """Return what is one clear sentence to whoever gave the command, and needs no traceback; None of all else."""
    cause: BaseException | None = error
    while isinstance(cause, InstantiationException):
        cause = cause.__cause__
    return cause if isinstance(cause, CompactHydraException) else None


def print_traceback(error: BaseException) -> None:
    """Print an exception as Python does, with the project's own frames and the last one, which is what others know.

    Nothing of a loader worker that was killed: the frames are only of the process that waited for it.
    """
    everything = os.environ.get("HYDRA_FULL_ERROR", "0") == "1"
    if plain(error) is not None or (training_causes.WORKER_ENDED.search(str(error)) and not everything):
        return
    shown, left_out = traceback.TracebackException.from_exception(error), 0
    for part in () if everything else chain(shown):
        frames = [frame for frame in part.stack[:-1] if is_own(frame.filename)] + part.stack[-1:]
        left_out += len(part.stack) - len(frames)
        part.stack = traceback.StackSummary.from_list(frames)
    note = f"({left_out} frames of libraries are left out; HYDRA_FULL_ERROR=1 shows them)\n" if left_out else ""
    sys.stderr.write("".join(shown.format()) + note)


def chain(shown: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    while shown is not None:
        yield shown
        shown = shown.__cause__ or shown.__context__


def _diagnose(error: BaseException) -> Finding:
    sentence = plain(error)
    if sentence is not None:
        return _plain(sentence)
    crashes: list[Crash] = []
    found: tuple[str, Cause] | None = None
    for each in causes_of(error):
        crashes.append(Crash(each, crashes[-1] if crashes else None))
        # What a target raised counts for more than that it was a target.
        found = find_cause(
            each, crashes[-1], config_causes.PATTERNS if isinstance(each, InstantiationException) else PATTERNS
        )
        if found is not None:
            break
    crash = crashes[-1]
    if found is None:
        crash = next((crash for crash in crashes if not isinstance(crash.error, InstantiationException)), crashes[0])
        found = "crash/unknown", _unknown(crash)
    rule, cause = found
    each = crash.error
    what = f"{type(each).__name__}: {brief(each)}"
    if rule == "crash/unknown" and (reason := each.__cause__) is not None:  # a library has told it in its own words
        *_, reason = causes_of(reason)
        what += f"\nraised from {type(reason).__name__}: {brief(reason)}"
    tensors = describe(crash.tensors()) if crash.is_in_model else ""
    if tensors:
        what += f"\nin {crash.own.function}: {tensors}"
    key = config_causes.full_key(error) if each is not error else ""
    place = cause.place or elsewhere(each) or crash.place
    if key and cause.place is None:
        place = place.beside(note=", ".join(filter(None, [place.note, f"built for config key {key}"])))
    fix = Fix(cause.fix) if isinstance(cause.fix, str) else cause.fix
    return Finding(rule, FAILED, what, place, cause.why, fix)


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def brief(error: BaseException) -> str:
    """Return the message, without what only makes it long: a worker's traceback, a checkpoint's every key, colours."""
    message = COLOUR.sub("", str(error)).strip() or "(no message)"
    if RAISED_ELSEWHERE.search(message):
        message = message.splitlines()[-1].partition(": ")[2] or message.splitlines()[-1]
    lines = [line.strip() for line in message.splitlines() if line.strip() and not OMEGACONF_DETAIL.match(line)]
    text = "\n".join(lines[:MESSAGE_LINES])
    return text if len(text) <= MESSAGE_CHARACTERS else f"{text[:MESSAGE_CHARACTERS]} ..."


def elsewhere(error: BaseException) -> Place | None:
    """Return the last line of one's own code in a traceback that another process has sent as text, or None."""
    found = [match for match in RAISED_ELSEWHERE.finditer(str(error)) if is_own(match["file"])]
    if not found:
        return None
    deepest = found[-1]
    process = re.match(r"Caught \w+ in (.*)\.", str(error))
    return Place(
        file=shorten(deepest["file"]),
        line=int(deepest["line"]),
        function=deepest["function"],
        source=deepest["source"].strip(),
        note=f"in {process[1]}" if process else "",
    )


def _plain(error: BaseException) -> Finding:
    """Return what is known of an exception that is one sentence to whoever gave the command."""
    if "SIGKILL" in str(error):
        return Finding(
            "crash/killed",
            FAILED,
            str(error),
            Place(note="a process of this job"),
            "nothing in Python ends a process like that: most often the system does, when memory runs out",
            Fix("data.batch_size and data.num_workers take the most", items=("memory",)),
        )
    wanted, options = getattr(error, "missing_cfg_file", None), getattr(error, "options", None) or []
    if wanted:
        group, _, option = wanted.rpartition("/")
        hint = suggestion(option, options, "there are") or "; there are none"
        place = Place(key=group) if group else Place(note="the primary config")
        return Finding(
            "crash/config-not-found", FAILED, str(error), place, f"there is no {wanted}{hint}", Fix(f"{group}=...")
        )
    why = "a value, or two that do not go together, was refused; the first line names it"
    fix = Fix("change what the first line names, and give the command again")
    return Finding("crash/refused", FAILED, str(error), Place(note="the command, or a config"), why, fix)


def _unknown(crash: Crash) -> Cause:
    own = crash.nearest
    if own is None:
        return Cause(
            "no line of this project is in the traceback, and no known cause fits this exception",
            "HYDRA_FULL_ERROR=1 before the same command shows every frame; search for the message's first line",
        )
    asked = f": {own.expression}" if "\n" not in own.expression else ""
    command = shlex.join([*program()[1:], *map(redact_override, without_items(sys.argv[1:]))])
    last = next((each for each in reversed(crash.steps) if not is_of_checks(each.file)), own)  # which passes calls on
    raised = "" if last.is_own else f", which {last.module_name} raises in its line {last.line} ({last.function})"
    return Cause(
        f"no known cause fits this exception{raised}; look at the values used in line {own.line}{asked}",
        f"HYDRA_FULL_ERROR=1 python -m pdb -c continue {command} stops at the error and prints any variable",
    )
