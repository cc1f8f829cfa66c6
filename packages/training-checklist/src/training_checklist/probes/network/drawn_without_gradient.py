import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Call, Step, StepListener
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


class Draws(StepListener):
    """Follows what torch.normal has drawn, until it meets weights, or the mean and deviation that it was drawn with.

    Attributes:
        used: places of those that the loss needs.
        scored: those of which it needs the probability, as policy gradients do.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.held: list[Tensor] = []  # lest another tensor gets the id of one of these
        self.same: dict[int, set[int]] = {}  # a copy without gradient: what it was made of
        self.drawn: dict[int, tuple[int, Place]] = {}  # what was drawn, and is made of that: by which draw
        self.around: dict[int, set[int]] = {}  # what was drawn: mean and deviation
        self.used: dict[int, Place] = {}
        self.scored: set[int] = set()
        self.number = 0

    def after(self, call: Call) -> None:
        given = {id(tensor): tensor for tensor in call.given}
        drawn = [key for key in given if key in self.drawn]
        self.scored |= {self.drawn[key][0] for key in drawn if self.around[key] & given.keys()}
        learns = any(tensor.requires_grad for key, tensor in given.items() if key not in self.drawn)
        if drawn and learns and torch.is_grad_enabled():  # else it is for a target, say, that none is meant for
            self.used |= dict(self.drawn[key] for key in drawn)
        made = [tensor for tensor in call.made if tensor.is_floating_point()]
        origins = (self.same.get(key, set() if tensor.is_leaf else {key}) for key, tensor in given.items())
        around = set().union(*origins)
        if call.name == "normal" and around:
            self.number += 1
            self._keep(given, made, (self.number, call.place), around)
        elif drawn and not learns:
            self._keep(given, made, self.drawn[drawn[0]], self.around[drawn[0]])
        elif around and not torch.is_grad_enabled():
            self.held += [*given.values(), *made]
            self.same |= {id(tensor): around for tensor in made}

    def _keep(self, given: dict[int, Tensor], made: list[Tensor], draw: tuple[int, Place], around: set[int]) -> None:
        self.held += [*given.values(), *made]
        for tensor in made:
            self.drawn[id(tensor)], self.around[id(tensor)] = draw, around


def detect(step: Step, limits: Limits) -> Hits:
    draws = step.heard()
    for number, place in draws.used.items():
        if number not in draws.scored:
            yield Hit(
                "the loss depends on a sample that is drawn around outputs of the network, without gradient", place
            )


def loss(answers: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(answers * torch.ones(4, requires_grad=True), labels)


def targeted(answers: Tensor, labels: Tensor) -> Tensor:
    """Take for its target what weights make of a sample, as a critic does of an action that is drawn."""
    with torch.no_grad():
        target = torch.normal(answers, answers.exp()) * torch.ones(4, requires_grad=True)
    return functional.mse_loss(answers, target)


PROBE = Probe(
    question="Does the gradient pass through samples that are drawn from a distribution that the network returns?",
    why="torch.normal(mean, std) and Normal(mean, std).sample() end the graph: the layers that return mean and "
    "deviation learn nothing from what becomes of the sample",
    fix=Fix("draw by rsample(), or mean + std * torch.randn_like(std), which have the gradient"),
    listener=Draws,
    detect=detect,
    faulty=lambda answers, labels: loss(torch.normal(answers, answers.exp()), labels),
    healthy=lambda answers, labels: loss(answers + answers.exp() * torch.randn_like(answers), labels),
    also_healthy=(targeted,),
)
