from itertools import combinations

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import TOGETHER, Data, Example, Small, normal, part
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    own = part(data, data.train)
    inputs = {place: own.of(place) for place in sorted(data.roles.inputs - {data.roles.target})}
    views = {place: values for place, values in inputs.items() if values is not None and tells_samples_apart(values)}
    pairs = [pair for pair in combinations(views, 2) if views[pair[0]].shape == views[pair[1]].shape]
    if not pairs:
        raise CannotJudge("no two inputs of the network have one form")
    for one, other in pairs:
        if torch.equal(views[one], views[other]):
            what = f"{one} and {other} are the same in all of {len(views[one])} samples"
            yield Hit(what, data.train.place.beside(note=f"{one}, {other}"))


def tells_samples_apart(values: Tensor) -> bool:
    """Whether each of several samples has numbers of its own."""
    several = values.is_floating_point() and values.ndim > 1 and len(values) >= TOGETHER
    return several and len(values.flatten(1).unique(dim=0)) == len(values)


class TwoViews(Small):
    """It pulls the answers to two views of a sample together, and those to other samples away."""

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        one, other = self(batch[0]), self(batch[1])
        return functional.cross_entropy(one @ other.T, torch.arange(len(one)))


def viewed(noise: float) -> Example:
    samples = normal(64, 8)
    return Example(TwoViews, lambda: DataLoader(TensorDataset(samples, samples + noise * normal(64, 8, seed=1)), 16))


PROBE = Probe(
    question="Do two inputs of one form differ, such as two views of a sample?",
    why="one of them was drawn, and given twice: what the network is to learn of their difference it knows already",
    severity=WARNING,
    may_be_wrong="a network that is to tell what is alike may be shown pairs that are",
    fix=Fix("draw each by itself: [draw(x) for _ in range(2)], and not [draw(x)] * 2"),
    detect=detect,
    faulty=viewed(0.0),
    healthy=viewed(0.1),
)
