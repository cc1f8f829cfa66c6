import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from training_checklist.instruments import (
    LEAST,
    Data,
    Example,
    MappedDataset,
    Validated,
    are_unlikely_to_repeat,
    digest_row,
    isolate_rng,
    leaves,
    load,
    mixed_by_collate,
    normal,
    on_datasets,
    part,
    seed_all,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    """Load training samples one by one, with the same random numbers each: equal inputs are one sample then."""
    split, roles = data.train, data.roles
    if roles.target is None or roles.input is None:
        raise CannotJudge("what is input and what is target is not known")
    others = {place: leaf for place, leaf in leaves(data.seen.first).items() if place not in roles.places}
    unknown = [place for place, leaf in others.items() if leaf.is_floating_point() and leaf.ndim > 1]
    if unknown:
        raise CannotJudge(f"what {unknown[0]} is for is not known")
    if any(is_mixed(data, each) for each in data.held_out):
        raise CannotJudge("a sample that is loaded alone is another one")
    first: dict[int, tuple[int, Any]] = {}
    rows, contradicting, targets, apart = [], [], [], []
    with isolate_rng():
        for index in part(data, split).indices:
            if time.monotonic() > data.until:
                break
            seed_all()
            one = load(split, [index], roles, data.trainer, data.until)
            row, target = one.of(roles.input), one.of(roles.target)
            if row is None or target is None:
                raise CannotJudge("samples have no input and target of their own")
            rows.append(row[0])
            # Whatever its first dimension: of a sample that is loaded alone, a list has one tensor, of its own length.
            entering = [each for place in sorted(roles.inputs) for each in one.chunks.get(place, ())]
            other, known = first.setdefault(hash(tuple(map(digest_row, entering))), (index, target))
            targets.append(target)
            if not torch.equal(known, target):
                contradicting.append((index, other))
                apart.append((known, target))
    if len(rows) < LEAST:
        raise CannotJudge(f"only {len(rows)} samples were loaded")
    if not are_unlikely_to_repeat(rows):
        raise CannotJudge("two samples of such data may well be equal by chance")
    if len(contradicting) > limits.max_contradicting * len(rows):
        if are_near(apart, targets):
            raise CannotJudge("targets of equal inputs are near each other, as measurements that were repeated")
        index, other = contradicting[0]
        yield Hit(
            f"{len(contradicting)} of {len(rows)} samples of {split.name} have the same input as another one and "
            f"another target: {len(first)} different inputs, item {index} is item {other}",
            split.place.beside(sample=index),
        )


def are_near(apart: list[tuple[Tensor, Tensor]], targets: list[Tensor]) -> bool:
    """Whether numbers differ between equal inputs by less than half of the variance that they have among all."""
    if not targets[0].is_floating_point() or len({each.shape for each in targets}) > 1:
        return False
    squares = torch.stack([(one - other).double().square() for one, other in apart]).mean(0)
    return bool((squares < torch.stack(targets).double().var(0)).all())  # those of unrelated numbers are twice that


def is_mixed(data: Data, split: Any) -> bool:
    try:
        return bool(mixed_by_collate(data, split))
    except CannotJudge:
        return False


class Together(Validated):
    """A place and a time, of which neither tells one sample from another."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.time = nn.Linear(4, 8), nn.Linear(4, 8)

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return super().forward(self.place(inputs[0]) + self.time(inputs[1]))


class Joined(Validated):
    """The same, joined before the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(8, 8)

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return super().forward(self.both(torch.cat(inputs, 1)))


class OfObjects(Together):
    """Is given a list with the objects of each sample, of which there are as many as there happen to be."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(16, 8)

    def forward(self, inputs: list) -> Tensor:
        objects, times = inputs
        sums = [each.sum(0) for each in self.place(torch.cat(objects)).split([len(each) for each in objects])]
        return Validated.forward(self, torch.stack(sums) + self.time(times))


def with_objects(drawn: list) -> list:
    times, labels = torch.stack([each for (_, each), _ in drawn]), torch.stack([label for _, label in drawn])
    return [[[objects for (objects, _), _ in drawn], times], labels]


def objects_of_each() -> MappedDataset:
    times = normal(15, 16)
    return MappedDataset(
        lambda index, x, y: ([normal(1 + index % 3, 4, seed=index), times[index % 15]], torch.tensor(index % 4))
    )


def parts_of_a_grid() -> MappedDataset:
    numbers = normal(16, 4)
    return MappedDataset(
        lambda index, x, y: ([numbers[index % 16], numbers[index // 16]], torch.tensor(index // 16 % 4))
    )


def contradicting(number: int) -> Example:
    """Give so many of 160 samples the input of the sample before, whose label is another one."""
    inputs = normal(160, 8)
    inputs[1 : 2 * number : 2] = inputs[: 2 * number : 2]
    return on_datasets(lambda: TensorDataset(inputs, torch.arange(160) % 4))


PROBE = Probe(
    question="Do training samples with equal inputs have equal targets?",
    why="no network can give two answers to one input: inputs and targets are read from different positions, or what "
    "tells samples apart is lost on the way",
    may_be_wrong="where several people label one sample, their answers may stand side by side",
    fix=Fix("look at how the dataset makes a position of an index, for the input and for the target"),
    detect=detect,
    faulty=contradicting(10),
    also_healthy=(
        *(on_datasets(parts_of_a_grid, parts_of_a_grid, module=each) for each in (Together, Joined)),
        on_datasets(objects_of_each, objects_of_each, module=OfObjects, collate_fn=with_objects),
    ),
    healthy=contradicting(3),
    thresholds={
        "max_contradicting": Threshold(
            0.033,
            "share of samples; labels of ten well-known test sets are wrong in 3.3 % on average (Northcutt et al. "
            "2021), so that duplicates contradict one another no more often",
        )
    },
)
