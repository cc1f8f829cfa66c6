from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training_checklist.instruments import (
    Call,
    Data,
    Example,
    Listener,
    MappedDataset,
    caller_of_numpy,
    of_frame,
    on_datasets,
    watch,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

CASTS = {"to", "type", "byte", "char", "short"}
ARRAYS = {"add", "subtract", "multiply", "negative", "square"}
ARITHMETIC = {"add", "sub", "mul", "neg", "radd", "rsub", "rmul"}


class Wraps(Listener):
    """Keeps the lines that make small whole numbers of others which are out of their range."""

    def __init__(self) -> None:
        self.found: dict[Place, str] = {}

    def after(self, call: Call) -> None:
        name, result = call.name.strip("_"), call.result
        small = isinstance(result, Tensor) and result.dtype in (torch.uint8, torch.int8, torch.int16)
        if not small or not call.given or not result.numel():
            return
        if name in CASTS:
            exact = call.given[0]
        elif name in ARITHMETIC:
            exact = call.function(*(each.long() if isinstance(each, Tensor) else each for each in call.args))
        else:
            return
        if exact.dtype != result.dtype and call.place.line:
            self._keep(call.place, torch.iinfo(result.dtype), *exact.double().aminmax())

    def see_array(self, name: str, function: Any, given: tuple[Any, ...], result: Any) -> None:
        """Look at an operation on NumPy's arrays in the same way."""
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu" or result.itemsize > 2:
            return
        if name == "astype":
            exact = given[0]
        elif name in ARRAYS:
            exact = function(*(each.astype(np.int64) if isinstance(each, np.ndarray) else each for each in given))
        else:
            return
        if exact.size and exact.dtype != result.dtype and exact.dtype.kind in "iuf":
            frame = caller_of_numpy()
            if frame is not None:
                self._keep(of_frame(frame), np.iinfo(result.dtype), exact.min(), exact.max())

    def _keep(self, place: Place, limits: Any, low: Any, high: Any) -> None:
        if low == -1 and limits.min == 0 and high <= limits.max:
            return  # as of labels from 1 on, of which 0 becomes 255: what is of no class
        # Between the last number and the next one a cast only cuts off.
        if low <= limits.min - 1 or high >= limits.max + 1:
            text = f"values from {float(low):g} to {float(high):g} go into {limits.dtype}, which has no room for them"
            self.found.setdefault(place, text)


def detect(data: Data, limits: Limits) -> Hits:
    wraps = Wraps()
    watch(data, wraps)
    for place, text in [*wraps.found.items()][:1]:
        yield Hit(text, place.beside(loader="train_dataloader"))


def images(make: Callable[[], Tensor]) -> Example:
    return on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y, make())))


def bright() -> Tensor:
    return torch.full((4,), 200, dtype=torch.uint8)


PROBE = Probe(
    question="Do the results of integer arithmetic and casts fit into their dtype (no 200 + 100 in uint8)?",
    why="what is too large wraps around to the other end of the range: a bright pixel becomes a dark one",
    fix=Fix("compute in float32, and clamp before the cast: values.clamp(0, 255).to(torch.uint8)"),
    detect=detect,
    faulty=images(lambda: bright() + 100),
    also_faulty=(
        images(lambda: (bright().int() + 100).to(torch.uint8)),
        images(lambda: (100 - bright().int()).to(torch.uint8)),
    ),
    healthy=images(lambda: (bright().int() + 100).clamp(0, 255).to(torch.uint8)),
    also_healthy=(images(lambda: torch.arange(4, dtype=torch.uint8) - 1),),
)
