"""The operation that makes the first Inf or NaN of a step, and what it is in FP32."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from training_checklist.engines.observe import Places
from training_checklist.experiments.overflow.forward_frames import floats, largest
from training_checklist.finding import FAILED, Finding, unsorted

FP16_MAX = torch.finfo(torch.float16).max  # 65504


@dataclass
class Made:
    """The first Inf or NaN.

    Args:
        given: abs-max of what went in.
        exact: abs-max of the result in FP32, None where that is Inf or NaN too.
        reached: the first module that has it among its inputs.
        only_in_fp16: whether the same step makes none in the precision that the trainer has.
    """

    kind: str
    operation: str
    place: str
    dtype: torch.dtype
    given: float
    exact: float | None
    reached: str = ""
    only_in_fp16: bool = False

    def finding(self, seen: str) -> Finding:
        module, dtype = self.place.partition(",")[0], str(self.dtype).removeprefix("torch.")
        where = f"{self.place}; it goes into {self.reached}" if self.reached else self.place
        what = f"{seen}: {self.operation} makes the first {self.kind} ({dtype}), from values up to {self.given:.3g}"
        if self.only_in_fp16 or (self.dtype == torch.float16 and self.exact is not None):
            other = "without FP16 it is finite" if self.exact is None else f"in FP32 it is {self.exact:.3g}"
            return unsorted(
                FAILED,
                f"{what}; {other}",
                where,
                f"it leaves the 16-bit range, which ends at {FP16_MAX:g}, and below 6e-8 everything is 0: NaN follows",
                f"run {module} in FP32 (torch.autocast(x.device.type, enabled=False), .float() on its inputs), "
                "scale it down, or stay with python train.py trainer.precision=bf16-mixed",
            )
        return unsorted(
            FAILED,
            what,
            where,
            "the 16-bit range is not to blame, FP32 has it too: a division by 0, a log or root at the edge, "
            "exp of too much, or Inf - Inf",
            "keep the operand away from the edge: x / (std + 1e-6), x.clamp_min(1e-6).log()",
        )


class Run(TorchFunctionMode):
    """While it is entered, the first operation that makes Inf or NaN from finite numbers is kept."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places = places
        self.first: Made | None = None
        self.largest = (0.0, "")  # in FP16, with its place
        self.loss = math.nan
        self.backward: tuple[str, str, str] | None = None  # kind, operation and place, as `Watch` has it
        self.error = ""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [] if self.first else [abs(float(each)) for each in numbers([*args, *kwargs.values()])]
        result = function(*args, **kwargs)
        for tensor in floats(result) if self.first is None else ():
            value = float(largest(tensor))
            if math.isfinite(value):
                if tensor.dtype == torch.float16 and value > self.largest[0]:
                    self.largest = value, self.places.near()
            elif all(map(math.isfinite, given)):
                kind = "NaN" if math.isnan(value) else "Inf"
                name = getattr(function, "__name__", "an operation").strip("_")
                exact = in_fp32(function, args, kwargs)
                self.first = Made(kind, name, self.places.near(), tensor.dtype, max(given, default=0.0), exact)
        return result


def numbers(values: Any) -> Iterator[Any]:
    """Yield each real number in nested arguments, a tensor's largest for all of it."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, (list, tuple, dict)):
            yield from numbers(value)
        elif isinstance(value, float):
            yield value
        elif isinstance(value, Tensor):
            yield from map(largest, floats(value))


def in_fp32(function: Any, args: Any, kwargs: Any) -> float | None:
    """Return the abs-max that a function's result has in FP32, or None where it is not finite."""

    def widened(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(widened, value))
        return value.detach().float() if isinstance(value, Tensor) and value.is_floating_point() else value

    try:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False), torch.no_grad():
            result = function(*map(widened, args), **{key: widened(value) for key, value in kwargs.items()})
        value = max(float(largest(tensor)) for tensor in floats(result))
    except Exception:  # a function that insists on the type that it was called with
        return None
    return value if math.isfinite(value) else None
