"""What is done to arrays and tensors while samples are loaded: numbers too large for a type, axes that are mixed."""

from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training_checklist.engines.places import here_and_outwards, kind, of_frame
from training_checklist.engines.splits import Split, load_items
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.engines.watched_arrays import watching
from training_checklist.evidence.loading import LoadedReshapes, Wrapped
from training_checklist.finding import Place
from training_checklist.lab.reshapes import exchanges_axes, to_transpose
from training_checklist.lab.shapes import Reshape
from training_checklist.lightning import Trainer, isolate_rng

SAMPLES = 16
SMALL = (torch.uint8, torch.int8, torch.int16)
CASTS = {"to", "type", "byte", "char", "short"}
ENGINES = ("training_checklist.", "numpy.", "torch.")
ARRAYS = {"add", "subtract", "multiply", "negative", "square"}
ARITHMETIC = {"add", "sub", "mul", "neg", "radd", "rsub", "rmul", "iadd", "isub", "imul"}


class Wraps(Listener):
    """Keeps the lines that make small whole numbers of others which are out of their range."""

    def __init__(self) -> None:
        self.found: dict[Place, tuple[str, float, float]] = {}

    def after(self, call: Call) -> None:
        name, result = call.name.strip("_"), call.result
        if not isinstance(result, Tensor) or result.dtype not in SMALL or not call.given or not result.numel():
            return
        if name in CASTS:
            exact = call.given[0]
        elif name in ARITHMETIC and not name.startswith("i"):
            with suppress(TypeError, RuntimeError):
                wide = [each.long() if isinstance(each, Tensor) else each for each in call.args]
                exact = call.function(*wide)
                self._keep(call, exact, result)
            return
        else:
            return
        self._keep(call, exact, result)

    def see_array(self, name: str, function: Any, given: tuple[Any, ...], result: Any) -> None:
        """Look at an operation on NumPy's arrays in the same way."""
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu" or result.itemsize > 2:
            return
        if name == "astype":
            exact = given[0]
        elif name in ARRAYS:
            wide = [each.astype(np.int64) if isinstance(each, np.ndarray) else each for each in given]
            exact = function(*wide)
        else:
            return
        if not exact.size or exact.dtype == result.dtype or exact.dtype.kind not in "iuf":
            return
        limits, low, high = np.iinfo(result.dtype), float(exact.min()), float(exact.max())
        if low <= limits.min - 1 or high >= limits.max + 1:
            # What libraries do with arrays, as with hues that go round, is their own affair.
            frame = caller_of_numpy()
            if kind(frame.f_code.co_filename) == "own":
                self.found.setdefault(of_frame(frame), (str(result.dtype), low, high))

    def _keep(self, call: Call, exact: Any, result: Tensor) -> None:
        limits = torch.iinfo(result.dtype)
        if not isinstance(exact, Tensor) or not exact.numel() or exact.dtype == result.dtype:
            return
        low, high = (float(each) for each in exact.double().aminmax())
        # Between the last number and the next one a cast only cuts off.
        if (low <= limits.min - 1 or high >= limits.max + 1) and call.place.line:
            self.found.setdefault(call.place, (str(result.dtype).removeprefix("torch."), low, high))


class Reshaped(Listener):
    """Keeps reshapes to the shape of a transpose, of tensors and of NumPy's arrays; once a line."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Reshape] = {}

    def after(self, call: Call) -> None:
        found = to_transpose(call)
        if found is not None:
            self.found.setdefault((found.place.file, found.place.line), found)

    def see_array(self, name: str, given: tuple[Any, ...], result: Any) -> None:
        if name == "reshape" and exchanges_axes(given[0].shape, result.shape):
            frame = caller_of_numpy()
            if kind(frame.f_code.co_filename) == "own":
                place = of_frame(frame)
                found = Reshape(name, given[0].shape, result.shape, place)
                self.found.setdefault((place.file, place.line), found)


def caller_of_numpy() -> FrameType:
    frames = (frame for frame, _ in here_and_outwards())
    return next(frame for frame in frames if not frame.f_globals.get("__name__", "").startswith(ENGINES))


def while_loading(split: Split, trainer: Trainer) -> list[Wrapped | LoadedReshapes]:
    """Load some samples."""
    if not split.indexable:
        return []
    wraps, reshaped = Wraps(), Reshaped()

    def told(name: str, function: Any, given: tuple[Any, ...], result: Any) -> None:
        wraps.see_array(name, function, given, result)
        reshaped.see_array(name, given, result)

    arrays = watching(split.dataset, told)
    with isolate_rng(), suppress(Exception), Tracer(trainer.lightning_module, wraps, reshaped), arrays:
        load_items(split.dataset, split.chosen(SAMPLES))
    place, known = next(iter(wraps.found.items()), (split.place, ("", 0.0, 0.0)))
    return [Wrapped(*known, place), LoadedReshapes([*reshaped.found.values()])]
