import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from training_checklist.instruments import MOST, Data, Example, Split, normal, on_datasets, part, shift, tables
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out

CHANNELS = {2: 1, 3: 2, 4: 1}  # by the number of dimensions: (N, columns), (N, time, features), (N, channels, H, W)


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Hold each column of the training set's inputs against each of another split's."""
    theirs = dict(tables(data, part(data, split)))
    for place, values in tables(data, part(data, data.train)):
        held = theirs.get(place)
        if held is None or not values.ndim == held.ndim in CHANNELS:
            continue
        one, two = moments(values), moments(held)
        if 2 <= len(one) == len(two) <= MOST:
            moved = moved_columns([[shift(mine, other) for other in two] for mine in one], limits)
            # Columns of which none varies, as of the place that all samples of a split are from, have no other order.
            moved = moved if any(bool(one[index][1].any()) for index in moved) else {}
            pairs = ", ".join(f"{index} is like {other} there" for index, other in list(moved.items())[:4])
            if moved:
                yield Hit(
                    f"columns of {split.name} look like other ones of the training set: {pairs}",
                    split.place.beside(note=place),
                )


def moved_columns(shifts: list[list[float]], limits: Limits) -> dict[int, int]:
    """Return which column looks like which other one, {} where that is not clear of all that have moved."""
    moved = [index for index, row in enumerate(shifts) if row[index] > limits.apart]
    like = {index: [other for other in moved if shifts[index][other] < limits.alike] for index in moved}
    # None: the data are others; several: they do not tell.
    clear = all(len(others) == 1 for others in like.values()) and len({*map(tuple, like.values())}) == len(moved)
    return {index: others[0] for index, others in like.items()} if clear else {}


def moments(values: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return for each column means of values and of their squares over samples, and their standard errors, (2,)."""
    channels = values.double().movedim(CHANNELS[values.ndim], 0)  # (C, N, ...)
    found = []
    for channel in channels.reshape(len(channels), len(values), -1):
        each = torch.stack([channel.mean(1), channel.square().mean(1)])
        found.append((each.mean(1), each.std(1) / len(values) ** 0.5))
    return found


def exchanged(apart: float, alike: float = 0.0) -> Example:
    """Exchange two columns that are so many standard errors apart, and move them by so many besides."""
    labels, error = (normal(160, 8)[:, 7] > 0).long(), (2 / 160) ** 0.5
    train = normal(160, 8)
    train[:, 1] = train[:, 0] + apart * error
    held = train + 1e-3 * normal(160, 8, seed=1)  # of which no sample is one of training
    held[:, [0, 1]] = held[:, [1, 0]] + alike * error
    return on_datasets(lambda: TensorDataset(train, labels), lambda: TensorDataset(held, labels))


def of_one_place(place: int) -> TensorDataset:
    """Mark in two columns where all samples are from."""
    inputs = normal(160, 8, seed=place)
    inputs[:, :2] = torch.eye(2)[place]
    return TensorDataset(inputs, (inputs[:, 7] > 0).long())


PROBE = Probe(
    question="Do columns and channels stand in the same order in all splits?",
    why="the weights of each column were learnt for another one",
    fix=Fix("read columns by name, in one order that all splits share"),
    detect=detect,
    faulty=exchanged(14),
    healthy=exchanged(5),
    also_healthy=(on_datasets(lambda: of_one_place(0), lambda: of_one_place(1)),),
    thresholds={
        "apart": Threshold(8.0, "standard errors: chance makes that once in 10^15 columns"),
        "alike": Threshold(
            4.0,
            "standard errors: one column in 16,000 has more by chance, and the larger of two such numbers decides",
            faulty=exchanged(40, 2),
            healthy=exchanged(40, 6),
        ),
    },
)
