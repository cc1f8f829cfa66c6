from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from training_checklist.instruments import (
    MOVED,
    SAMPLES,
    CriterionCall,
    Example,
    Small,
    Step,
    compared,
    differences,
    first_of,
    leaves,
    look,
    replaced,
    speaks_of_posterior,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    """Exchange a value of each series for another sample's, and see whether answers change that are to predict it."""
    if speaks_of_posterior(step.pl_module):
        raise CannotJudge("the code speaks of a posterior, which sees the values that are to be given back")
    is_judged = False
    looked, batch = look(step), first_of(step.batch, SAMPLES)
    asked = compared(looked, batch)[1].calls
    for path, leaf in leaves(batch).items():
        for number, call in enumerate(asked):
            shift = shift_of(leaf, call)
            if shift is None:
                continue
            position = min(call.target.shape[1], leaf.shape[1] - shift) // 2
            changed = leaf.clone()
            changed[:, position + shift] = leaf.roll(1, 0)[:, position + shift]
            others = compared(looked, replaced(batch, {path: changed}))[1].calls
            if len(others) != len(asked) or others[number].input.shape != call.input.shape:
                continue
            is_judged = True
            now, then = (each.input.reshape(*each.input.shape[:2], -1) for each in (others[number], call))
            if bool((differences(then, now)[:, position] > limits.answers_moved).any()):
                yield Hit(
                    f"the answer at position {position} changes with {path}[:, {position + shift}], which is the value "
                    "that it is to predict",
                    call.place.beside(loader="train_dataloader", note=path),
                )
    if not is_judged:
        raise CannotJudge("no criterion asks each position of a series for a later value of it")


def shift_of(leaf: Tensor, call: CriterionCall) -> int | None:
    """Return by how many positions the values of a series (B, T, ...) that are targets (B, L, ...) come later.

    None where none do, where they begin with the series itself, and where they end before it does, as what is cut off
    at both sides to be given back does.
    """
    target = call.target
    if min(leaf.ndim, target.ndim) < 2 or target.shape != call.input.shape or len(leaf) != len(target):
        return None
    if not target.numel() or not target.is_floating_point():
        return None
    if not leaf.is_floating_point() or len(leaf.unique()) < leaf.shape[1]:
        return None
    wanted, columns = target.reshape(*target.shape[:2], -1)[..., :1], leaf.reshape(*leaf.shape[:2], -1)
    found = []
    for shift in (columns == wanted[:, :1]).all(0).any(1).nonzero().flatten().tolist():
        later = columns[:, shift:]
        if later.shape[1] <= wanted.shape[1] and bool((later == wanted[:, : later.shape[1]]).all(0).all(0).any()):
            found.append(shift)
    return found.pop() or None if len(found) == 1 else None


class Forecaster(Small):
    """Predicts the next value of a series from those up to it."""

    def __init__(self, is_causal: bool = True, leak: float = 1.0) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(2, 8), nn.Linear(8, 1)
        self.leak = 0.0 if is_causal else leak

    def forward(self, series: Tensor) -> Tensor:
        before = series.cumsum(1) / torch.arange(1, 1 + series.shape[1])
        seen = torch.stack([series, before + self.leak * series.mean(1, keepdim=True)], -1)
        return self.head(torch.tanh(self.first(seen)))[..., 0]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch)[:, :-1], batch[:, 1:])


def series() -> DataLoader:
    return DataLoader(torch.randn(32, 12).cumsum(1), batch_size=16)


PROBE = Probe(
    question="Are the later values of a series hidden from the positions that are to predict them?",
    why="it learns to read the answer from its input; where the future is not known yet there is nothing to read",
    fix=Fix(
        "let no position see a later one: is_causal=True or a causal mask in every layer of attention, padding of "
        "convolutions on the left only, recurrent layers in one direction"
    ),
    thresholds={
        "answers_moved": replace(
            MOVED,
            faulty=Example(partial(Forecaster, False, 1e-2), series),
            healthy=Example(partial(Forecaster, False, 1e-3), series),
        )
    },
    detect=detect,
    faulty=Example(partial(Forecaster, False), series),
    healthy=Example(Forecaster, series),
)
