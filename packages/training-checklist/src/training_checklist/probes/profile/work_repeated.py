import inspect
import io
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from training_checklist.instruments import StepTimes, digest, is_own, of_frame, of_the_project, reading, title_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold

PLAIN = (int, float, complex, str, bytes, tuple)  # of which two that are equal may be one object


@dataclass
class Made:
    """What the calls of one function from one line came to.

    Args:
        result: of each of them as a digest, None once two were different.
        one: by identity, to tell what is kept from what is made anew.
        spent: seconds of each, without those of the first call, which may fill a cache.
    """

    result: bytes | None
    one: Any
    place: Place
    kept: bool = False
    spent: list[float] = field(default_factory=list)


def detect(times: StepTimes, limits: Limits) -> Hits:
    with of_the_project("the dataset, asked for samples again,"):
        share, function, place = repeated(times.loads())
    lost = share * times.share
    if lost > limits.max_repeated:
        yield Hit(
            f"{function} makes the same for every sample, which takes {share:.0%} of the time of loading, "
            f"and so {lost:.0%} of a step",
            place,
        )


class Calls:
    """Watches the calls that the project's code makes, of its own functions and of those of libraries in Python."""

    def __init__(self) -> None:
        self.made: dict[tuple[CodeType, CodeType, int], Made] = {}
        self.open: dict[FrameType, float] = {}
        self.lost = 0.0  # seconds that this class itself has taken

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        caller = frame.f_back
        if event not in ("call", "return") or caller is None or not is_own(caller.f_code.co_filename):
            return
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        now = time.perf_counter()
        if event == "call":
            self.open[frame] = now - self.lost
        elif frame in self.open:
            self._end(frame, caller, now - self.lost - self.open.pop(frame), result)
        self.lost += time.perf_counter() - now

    def _end(self, frame: FrameType, caller: FrameType, seconds: float, result: Any) -> None:
        key = (frame.f_code, caller.f_code, caller.f_lasti)
        made = self.made.get(key)
        if made is None:
            self.made[key] = Made(content(result), result, of_frame(caller))
            return
        made.spent.append(seconds)
        made.kept |= result is made.one and not isinstance(result, PLAIN)
        if made.result is not None and content(result) != made.result:
            made.result = None


class Pickler(pickle.Pickler):
    """Pickles tensors by their values: torch writes where they lie, too."""

    def reducer_override(self, value: Any) -> Any:
        return (str, (digest(value),)) if isinstance(value, Tensor) else NotImplemented


def content(result: Any) -> bytes | None:
    """Return a digest of anything that can be pickled; None of what is no result."""
    if result is None or isinstance(result, bool):
        return None
    written = io.BytesIO()
    try:
        Pickler(written).dump(result)
    except Exception:  # of what cannot be pickled: then it cannot be compared
        return None
    return blake2b(written.getbuffer(), digest_size=16).digest()


def repeated(calls: Iterable[Callable[[], Any]]) -> tuple[float, str, Place]:
    """Return the greatest share of the time of some calls in which one function makes what it has made before.

    Returns:
        The share, of all calls but the first, the function's name, and the line that calls it.
    """
    watching, seconds = Calls(), []
    for call in calls:
        began, lost = time.perf_counter(), watching.lost
        earlier = sys.getprofile()
        sys.setprofile(watching)
        try:
            call()
        finally:
            sys.setprofile(earlier)
        seconds.append(time.perf_counter() - began - (watching.lost - lost))
    # As often as there are samples, or it may be a coincidence.
    again = {key: made for key, made in watching.made.items() if made.result and not made.kept}
    again = {key: made for key, made in again.items() if len(made.spent) >= len(seconds) - 1 > 1}
    if not again:
        return 0.0, "", Place()
    (code, _, _), most = max(again.items(), key=lambda item: typical(item[1].spent))
    name = code.co_qualname if is_own(code.co_filename) else title_of((code.co_filename, 0, code.co_name))
    return min(typical(most.spent) / typical(seconds[1:]), 1.0), name, most.place


def typical(seconds: list[float]) -> float:
    """Return what calls took, as if each had taken the median: other work on the machine holds up single ones."""
    return median(seconds) * len(seconds)


def made_anew(seconds: float) -> Callable[[int], Any]:
    """Have the same table made so long for each sample, of which each takes 50 ms beside it."""

    def table() -> list[int]:
        time.sleep(seconds)
        return [1, 2, 3]

    def read(index: int) -> None:
        table()
        time.sleep(0.05)

    return read


PROBE = Probe(
    question="Is work that is the same for all samples done once, and not in every __getitem__?",
    why="a table, an archive or a filter bank that is the same for each sample can be kept where the dataset is made",
    severity=WARNING,
    fix=Fix("make it once, in __init__ of the dataset, and keep it there"),
    detect=detect,
    thresholds={
        "max_repeated": Threshold(
            0.2, "share of a step: one of four runs of a healthy training had 0.12, and the others less than 0.1"
        )
    },
    faulty=reading(made_anew(0.02), 2),
    healthy=reading(made_anew(0.0075), 2),
)
