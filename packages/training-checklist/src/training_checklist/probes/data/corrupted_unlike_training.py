import torch
from torch import nn
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Regression, Split, normal, on_datasets, part
from training_checklist.probe import REMARK, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    one, two = distance(data, data.train), distance(data, split)
    if max(one, two) > limits.times * min(one, two):
        yield Hit(
            f"inputs of {data.train.name} are {one:.3g} of a standard deviation away from their targets, and those "
            f"of {split.name} {two:.3g}",
            split.place,
            # An autoencoder may learn by what is corrupted, and be used for what is not.
            severity=None if two else REMARK,
        )


def distance(data: Data, split: Split) -> float:
    """Return the root mean square of inputs minus targets, in standard deviations of the targets."""
    own, roles = part(data, split), data.roles
    target, inputs = own.of(roles.target), [own.of(place) for place in roles.inputs - {roles.target}]
    alike = [each for each in inputs if target is not None and each is not None and each.shape == target.shape]
    if len(alike) != 1 or not target.is_floating_point():
        raise CannotJudge("inputs are not of the kind of their targets")
    [given] = alike
    difference, deviation = (given.float() - target.float()).square().mean().sqrt(), target.float().std()
    if not torch.isfinite(difference / deviation):
        raise CannotJudge(f"numbers of {split.name} are not finite, or targets are all the same")
    return float(difference / deviation)


class Restoring(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 8)

    def loss(self, answers: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(answers, targets)


def noisy(deviation: float, held_out: float = 0.1) -> Example:
    clean, noise = normal(500, 8), normal(500, 8, seed=1)
    return on_datasets(
        lambda: TensorDataset(clean + deviation * noise, clean),
        lambda: TensorDataset(clean + held_out * noise, clean),
        module=Restoring,
    )


PROBE = Probe(
    question="Is the noise, blur or loss of detail that is to be undone about as strong in validation as in training?",
    why="the network is trained to undo something else than what it is validated on",
    fix=Fix("make the inputs of all splits by the same code; look for a strength that is divided by 255 twice"),
    detect=detect,
    faulty=noisy(0.1 / 255),
    healthy=noisy(0.1),
    thresholds={
        "times": Threshold(
            16.0,
            "the square root of 255, by which strengths for bytes and for shares of 1 differ; a network that is "
            "trained for noise up to 55 of 255 is validated on single levels from 5 on, a sixth of their mean square",
            factor=1.5,
            faulty=noisy(0.1 / 20),
            healthy=noisy(0.1 / 13),
        )
    },
)
