"""The terms of a loss, of some samples and of each of them twice: a mean stays, a sum doubles."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.compared import SAMPLES, Look
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split, as_in
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.network import LossTerm, LossTerms
from training_checklist.lightning import Trainer, isolate_rng


class Reductions(Listener):
    """Keeps the single numbers that many numbers are brought down to, and not those that are made of such ones."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Tensor]] = []
        self._of_terms: dict[int, Tensor] = {}  # held, lest another tensor gets the id

    def after(self, call: Call) -> None:
        given = [tensor for tensor in call.given if tensor.requires_grad]
        if not given:
            return
        if all(id(tensor) in self._of_terms for tensor in given):
            self._of_terms |= {id(made): made for made in call.made}
        elif isinstance(call.result, Tensor) and call.result.ndim == 0:
            self.calls.append((call.name.strip("_"), call.place, call.result))
            self._of_terms[id(call.result)] = call.result


def term_sizes(look: Look, split: Split, trainer: Trainer) -> LossTerms | None:
    """Compare what each term adds to the loss of some samples, of each of them twice, and of others.

    In eval mode. None where the steps do not go the same way, or there is one term only.
    """
    with as_in(split.stage, trainer):
        items = list(split.items(split.chosen(2 * SAMPLES)))
    some, others = items[:SAMPLES], items[SAMPLES:]
    if len(others) != SAMPLES:
        return None
    look.module.eval()
    with as_in(split.stage, trainer):
        batches = [split.batch_of(deepcopy(each), trainer) for each in (some, some + some, others)]
    once, twice, other = (terms(look, batch) for batch in batches)
    if len(once) < 2 or not [each[:2] for each in once] == [each[:2] for each in twice] == [each[:2] for each in other]:
        return None
    found = [
        LossTerm(name, value, doubled, place)
        for (name, place, value), (_, _, doubled), (_, _, different) in zip(once, twice, other, strict=True)
        if value != 0 and value != different  # which is no term of the weights alone
    ]
    return LossTerms(found)


def terms(look: Look, batch: Any) -> list[tuple[str, Any, float]]:
    """Return name, place and share in the loss of each number that many were brought down to."""
    reductions = Reductions()
    with isolate_rng(), torch.enable_grad(), Tracer(look.module, reductions):
        seed_all()
        loss = look.loss_of(batch)
    values = [value for _, _, value in reductions.calls]
    slopes = torch.autograd.grad(loss, values, allow_unused=True) if values and loss.requires_grad else []
    return [
        (name, place, float(value.detach()) * float(slope))
        for (name, place, value), slope in zip(reductions.calls, slopes, strict=True)
        if slope is not None
    ]
