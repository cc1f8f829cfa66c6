"""Numbers that are drawn around what the network answers, and whether their gradient leads back to it."""

import torch
from torch import Tensor

from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import Draw


class DrawsOf(Listener):
    """Follows what torch.normal has drawn, until it meets weights, or the mean and deviation that it was drawn with."""

    def __init__(self) -> None:
        self._held: list[Tensor] = []  # lest another tensor gets the id of one of these
        self._same: dict[int, set[int]] = {}  # a copy without gradient: what it was made of
        self._drawn: dict[int, Draw] = {}
        self._around: dict[int, set[int]] = {}  # what was drawn: mean and deviation
        self._used: dict[int, Draw] = {}
        self._scored: set[int] = set()

    @property
    def found(self) -> list[Draw]:
        """Those that the loss needs, but for those of which it needs the probability, as policy gradients do."""
        return [draw for key, draw in self._used.items() if key not in self._scored]

    def after(self, call: Call) -> None:
        given = {id(tensor): tensor for tensor in call.given}
        drawn = [key for key in given if key in self._drawn]
        for key in drawn:
            if self._around[key] & given.keys():
                self._scored.add(id(self._drawn[key]))
        learns = any(tensor.requires_grad for key, tensor in given.items() if key not in self._drawn)
        if drawn and learns:
            self._used |= {id(self._drawn[key]): self._drawn[key] for key in drawn}
        made = [tensor for tensor in call.made if tensor.is_floating_point()]
        around = set().union(
            *(self._same.get(key, set() if tensor.is_leaf else {key}) for key, tensor in given.items())
        )
        if call.name == "normal" and around:
            self._keep(given, made, Draw(call.place), around)
        elif drawn and not learns:
            self._keep(given, made, self._drawn[drawn[0]], self._around[drawn[0]])
        elif around and not torch.is_grad_enabled():
            self._held += [*given.values(), *made]
            self._same |= {id(tensor): around for tensor in made}

    def _keep(self, given: dict[int, Tensor], made: list[Tensor], draw: Draw, around: set[int]) -> None:
        self._held += [*given.values(), *made]
        for tensor in made:
            self._drawn[id(tensor)], self._around[id(tensor)] = draw, around
