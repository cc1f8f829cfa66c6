"""The masks of attention over token ids, and what embeddings take for padding."""

from dataclasses import dataclass

import torch
from torch import Tensor

from training_checklist.engines.tracer import Call
from training_checklist.finding import Place
from training_checklist.lab.step import Step, StepListener
from training_checklist.probe import CannotJudge


@dataclass(frozen=True)
class PaddingMask:
    """What a call leaves out of token ids, (B, T).

    Args:
        left_out: True where an id is left out.
        tokens: the ids; None where they are not known.
        inverted: whether it leaves out exactly what an embedding has no padding in.
    """

    left_out: Tensor
    tokens: Tensor | None
    inverted: bool
    place: Place


class PaddingMasks(StepListener):
    """Keeps them, in the order of the calls."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.tokens: list[Tensor] = []
        self.padding: list[Tensor] = []  # True where an id is the padding's
        self.calls: list[PaddingMask] = []

    def after(self, call: Call) -> None:
        if call.name == "embedding" and call.is_functional:
            index, ids = call.argument("padding_idx", 2), call.argument("input", 0)
            if not isinstance(ids, Tensor) or ids.ndim != 2:
                return
            if ids.shape[1] == self.step.size != len(ids):  # time comes first
                ids = ids.T
            self.tokens.append(ids)
            if index is not None and bool((ids == index).any()):
                self.padding.append(ids == index)
                self.calls.append(PaddingMask(ids == index, ids, False, call.place))
        elif call.name == "multi_head_attention_forward":
            mask = call.kwargs.get("key_padding_mask")
            if isinstance(mask, Tensor):
                self._compare(mask if mask.dtype == torch.bool else mask == -torch.inf, call.place)

    def _compare(self, left_out: Tensor, place: Place) -> None:
        padding = next((each for each in self.padding if each.shape == left_out.shape), None)
        tokens = next((each for each in self.tokens if each.shape == left_out.shape), None)
        inverted = padding is not None and bool((padding != left_out).all())
        if inverted or tokens is not None:
            self.calls.append(PaddingMask(left_out, tokens, inverted, place))

    def masks(self) -> list[PaddingMask]:
        """Return them.

        Raises:
            CannotJudge: there are none.
        """
        if not self.calls:
            raise CannotJudge("no mask of attention and no padding_idx of an embedding leaves out token ids")
        return self.calls
