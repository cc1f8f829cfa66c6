import torch
from torch import Tensor
from torch.utils.data import Dataset

from training_checklist.instruments import (
    Data,
    MappedDataset,
    Split,
    Validated,
    by_index,
    differing,
    on_datasets,
    reloaded,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    roles, (first, second) = data.roles, reloaded(data, by_index(split))
    inputs, again = first.of(roles.input), second.of(roles.input)
    differ = differing(inputs, again)
    targets = first.of(roles.target), second.of(roles.target)
    known = targets[0] is not None and targets[1] is not None
    random = not known or bool(differing(*(each[: len(inputs)] for each in targets)).any())
    larger = known and inputs[0].numel() > targets[0][0].numel()
    if not differ.any():
        return
    # Masked tokens, or noise that a network is to remove, may be drawn anew in every pass, and then of every split.
    untold = roles.classes is None and (random or not larger)
    # Labels that are drawn with them make samples that are made or picked, whatever their index.
    drawn = known and random and not targets[0].is_floating_point()
    if (untold or drawn) and not any(is_steady(data, each) for each in data.held_out):
        if drawn:
            return
        raise CannotJudge("inputs of held-out samples are random, and the criterion does not tell whether they may be")
    if is_drawn_of_sets(inputs[differ], again[differ]):
        return
    yield Hit(
        f"{int(differ.sum())} of {len(inputs)} samples of {split.name} differ when they are loaded again",
        split.place.beside(sample=first.indices[int(differ.nonzero()[0, 0])]),
    )


def is_drawn_of_sets(inputs: Tensor, again: Tensor) -> bool:
    """Whether samples are points of a set, as many as fit, and some are the same in another order."""
    if inputs.ndim != 3:
        return False
    if inputs.shape[1] < inputs.shape[2]:
        inputs, again = inputs.mT, again.mT
    for one, two in zip(inputs, again, strict=True):
        rows = torch.unique(torch.cat([one, two]), dim=0, return_inverse=True)[1]
        places = torch.full((len(rows),), -1)
        places[rows[len(one) :]] = torch.arange(len(two))
        kept = places[rows[: len(one)]]
        if bool((kept[kept >= 0].diff() >= 0).all()):
            return False
    return True


def is_steady(data: Data, split: Split) -> bool:
    try:
        first, second = reloaded(data, by_index(split))
    except CannotJudge:
        return False
    return not differing(first.of(data.roles.input), second.of(data.roles.input)).any()


class Shapes(Dataset):
    """As many points as the network takes, of each of 160 shapes."""

    def __init__(self) -> None:
        self.points, self.labels = torch.randn(160, 32, 4), torch.arange(160) % 4

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.points[index][torch.randperm(32)[:16]], self.labels[index]


class OfPoints(Validated):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.repeat(1, 1, 2)).amax(1)


class Made(Dataset):
    """Makes a sample of random numbers."""

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs = torch.randn(8)
        return inputs, inputs[:4].argmax()


PROBE = Probe(
    question="Are validation and test samples the same each time that they are loaded (no random augmentation)?",
    why="something draws random numbers when they are loaded, such as an augmentation, or the beginning of a window: "
    "metrics change from one pass to the next",
    fix=Fix("load this split without randomness, or by a generator with a seed of its own"),
    detect=detect,
    faulty=on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x + torch.randn(8), y))),
    healthy=on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x + index, y))),
    also_healthy=(on_datasets(Shapes, Shapes, module=OfPoints), on_datasets(Made, Made)),
)
