import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from training_checklist.instruments import DISTANCES, Call, Small, Step, StepListener
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


class Uniform(StepListener):
    """Follows what torch.rand has drawn to where noise of mean 0 and deviation 1 is asked for.

    Attributes:
        used: what for, and where it was drawn.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        # Each with the place where it, or what it is made of, was drawn.
        self.drawn = WeakTensorKeyDictionary()
        self.mixed = WeakTensorKeyDictionary()  # of these, what was multiplied: the noise of a diffusion
        self.scaled = WeakTensorKeyDictionary()  # draws, times what has a gradient: a deviation
        self.used: dict[str, Place] = {}

    def after(self, call: Call) -> None:
        drawn = [each for each in call.given if each in self.drawn]
        name = call.name.strip("_")
        if name in ("rand", "rand_like"):
            self.drawn.update((each, call.place) for each in call.made if each.ndim > 1)
        elif name in ("mul", "rmul") and drawn:
            [made] = call.made
            # One number for each sample is how much noise there is, which a network may be asked for.
            self.mixed.update((each, self.drawn[each]) for each in drawn if each.shape == made.shape)
            if made.requires_grad and made.shape == drawn[0].shape:
                self.scaled[made] = self.drawn[drawn[0]]
        elif name in ("rsub", "sub") and drawn:  # of two ends, it weighs the one and 1 - it the other
            for each in drawn:
                self.drawn.pop(each, None)
                self.mixed.pop(each, None)
        elif name in ("add", "radd"):
            others = [each for each in call.given if each not in self.scaled]
            places = [self.scaled[each] for each in call.given if each in self.scaled]
            if places and any(each.requires_grad and each.shape == call.made[0].shape for each in others):
                self.used["is scaled by a deviation and added to a mean that the network returns"] = places[0]
        elif name in DISTANCES:
            target = call.argument("target", 1)
            if isinstance(target, Tensor) and target in self.mixed:
                self.used[f"is mixed into the inputs and is the target of {name}"] = self.mixed[target]


def detect(step: Step, limits: Limits) -> Hits:
    for what, place in step.heard().used.items():
        yield Hit(f"noise that {what} is drawn from 0 to 1: its mean is 0.5, its deviation 0.29", place)


class Noisy(Small):
    """Learns which noise its inputs are mixed with."""

    draw = staticmethod(torch.rand_like)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        noise = self.draw(batch[0])
        return functional.mse_loss(self.first(0.8 * batch[0] + 0.6 * noise)[:, : noise.shape[1]], noise)


class Normal(Noisy):
    draw = staticmethod(torch.randn_like)


class Levels(Small):
    """Tells how much noise its inputs are mixed with."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        level = torch.rand(len(batch[0]), 1)
        return functional.mse_loss(self(batch[0] + level * torch.randn_like(batch[0]))[:, :1], level)


def around(answers: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
    """Take the answers for means and deviations, as a variational autoencoder does."""
    return functional.cross_entropy(answers + answers.exp() * noise, labels)


PROBE = Probe(
    question="Is noise that a mean and a deviation belong to drawn from a normal distribution?",
    why="what is generated starts from torch.randn, of mean 0 and deviation 1, which training has never met",
    fix=Fix("torch.randn, or torch.randn_like"),
    listener=Uniform,
    detect=detect,
    faulty=Noisy,
    also_faulty=(lambda answers, labels: around(answers, labels, torch.rand_like(answers)),),
    healthy=Normal,
    also_healthy=(
        Levels,
        lambda answers, labels: around(answers, labels, torch.randn_like(answers)),
    ),
)
