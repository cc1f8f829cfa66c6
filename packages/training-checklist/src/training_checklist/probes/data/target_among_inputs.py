import torch
from torch.utils.data import TensorDataset

from training_checklist.instruments import (
    LEAST,
    Data,
    Example,
    Regression,
    normal,
    numbers_of_targets,
    on_datasets,
    part,
    whole_table,
)
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    near, known = [], left_by_columns(data)
    copied = {target: name for target, (_, columns) in known.items() for name in columns if is_own(target, name)}
    if all(known[target][1][name] < limits.rounding for target, name in copied.items()):
        copied = {}
    if len(known) > 1 and all(min(columns.values()) < limits.rounding for _, columns in known.values()):
        return  # several numbers, each of them among the inputs, are what a narrow network is to restore
    for target, (number, columns) in known.items():
        place, ranked = data.train.place, sorted(columns.items(), key=lambda pair: pair[1])
        found = [name for name, rest in columns.items() if rest < limits.rounding]
        if copied.get(target) in found:
            continue  # a part of a state that goes on as it is, as a goal does, while other parts move
        if len(ranked) < 2:  # of a single column it is the task itself, as in a demonstration of a straight line
            continue
        (name, rest), (_, second) = ranked[:2]
        if found:
            yield Hit(
                f"{', '.join(found[:3])} is {target} itself, up to scale and shift, in all of {number} samples",
                place.beside(note=found[0]),
            )
        # Of the days before, the last and the one before it are about as near; what follows from the target is alone.
        elif rest < min(limits.nearly, second * limits.alone) and not is_earlier(data, target, name):
            what = f"{name} alone tells {1 - rest:.2%} of the variance of {target}, and no other column more than "
            why = "what is computed from the answer is not there where the answer is to be predicted"
            fix = Fix("take the column out of the inputs, unless it is known before the target is")
            near.append(Hit(f"{what}{1 - second:.0%}", place.beside(note=name), why, fix))
    # Where each of several numbers has a column of its own, columns are what they are measured by, as by sensors.
    if len({hit.place.note for hit in near}) == 1:
        yield from near


def is_own(target: str, column: str) -> bool:
    """Whether a number of the target and a column stand at the same place in their tensors."""
    return "[:, " in target and target.rpartition("[:, ")[2] == column.rpartition("[:, ")[2]


def left_by_columns(data: Data) -> dict[str, tuple[int, dict[str, float]]]:
    """Return how many samples tell each number of the target, and how much of its variance each column leaves."""
    found = {}
    own, roles = part(data, data.train), data.roles
    for name, target in numbers_of_targets(own, roles).items():
        known = target.isfinite()
        if int(known.sum()) < LEAST or not target[known].std() > 0:
            continue
        target = target[known].double().unsqueeze(1)
        target = target - target.mean()
        for place in sorted(roles.inputs - {roles.target} - roles.compared):
            values = own.of(place)
            if values is None or values.ndim != 2 or not values.is_floating_point():
                continue
            values = values[known].double()
            values = values - values.mean(0)
            alike = (values * target).sum(0) ** 2 / (values.square().sum(0) * target.square().sum()).clamp_min(1e-300)
            rest = {f"{place}[:, {index}]": 1 - float(share) for index, share in enumerate(alike)}
            found.setdefault(name, (len(target), {}))[1].update(rest)
    return found


def is_earlier(data: Data, name: str, named: str) -> bool:
    """Whether a column has what the target is, for the most part, in another row: in the next hour, say."""
    own = whole_table(data, data.train)
    place, _, index = named.removesuffix("]").rpartition("[:, ")
    target, values = numbers_of_targets(own, data.roles).get(name), own.of(place)
    if target is None or values is None:
        return False
    column, order = values[:, int(index)].sort()
    at = torch.searchsorted(column, target.contiguous()).clamp_max(len(column) - 1)
    elsewhere = (column[at] == target) & (order[at] != torch.arange(len(column)))
    return bool(2 * elsewhere.sum() > len(column) and 2 * len(column.unique()) > len(column))


def leaving(*rests: float) -> Example:
    """Return a table whose first columns leave so much of the target's variance, and the others all of it."""
    inputs, target = normal(160, 8), normal(160, 1, seed=1)
    share = torch.tensor(rests)
    inputs[:, : len(rests)] = target + (share / (1 - share)).sqrt() * inputs[:, : len(rests)]
    return on_datasets(lambda: TensorDataset(inputs, target), lambda: TensorDataset(inputs, target), module=Regression)


def restored() -> Example:
    """Return a table of which some columns are to be restored, as by an autoencoder that knows the others besides."""
    inputs = normal(160, 8)
    table = TensorDataset(inputs, inputs[:, 5:])
    return on_datasets(lambda: table, lambda: table, module=Regression)


def calibrated() -> Example:
    """Return a table in which each of two numbers to predict is nearly straight in one that is measured."""
    inputs, measured = normal(160, 8), normal(160, 2, seed=1)
    inputs[:, :2] = measured + 0.05 * inputs[:, :2]
    table = TensorDataset(inputs, measured)
    return on_datasets(lambda: table, lambda: table, module=Regression)


def hourly() -> Example:
    """Return the present value of a slow series and other measurements, of which the next value is told."""
    series, inputs = normal(161, 1).cumsum(0), normal(160, 7, seed=1)
    table = TensorDataset(torch.cat([series[:-1], inputs], 1), series[1:])
    return on_datasets(lambda: table, lambda: table, module=Regression)


def with_goal() -> Example:
    """Return states of four numbers, of which the last one stays as it is."""
    inputs = normal(160, 8)
    after = inputs[:, :4] + normal(160, 4, seed=1) * torch.tensor([1.0, 1.0, 1.0, 0.0])
    return on_datasets(*[lambda: TensorDataset(inputs, after)] * 2, module=Regression)


PROBE = Probe(
    question="Is the target kept out of the inputs?",
    why="the network copies the answer from its input; where the answer is not known it has nothing to copy",
    severity=WARNING,
    may_be_wrong="a column that is known before the target is, and tells nearly all of it, is no leak",
    fix=Fix("take the column out of the inputs"),
    detect=detect,
    faulty=leaving(0.01),
    healthy=leaving(0.04),
    also_healthy=(restored(), calibrated(), hourly(), with_goal()),
    thresholds={
        "rounding": Threshold(
            1e-6,
            "of the target's variance is left by the column: float32 keeps 7 digits, and a sum of squares loses one",
            faulty=leaving(6e-7, 2e-6),
            healthy=leaving(2e-6, 8e-6),
        ),
        "nearly": Threshold(0.02, "of the variance is left: a correlation of 0.99"),
        "alone": Threshold(
            0.1,
            "of what the next column leaves; days before a day leave at most three times as much as the one after",
            faulty=leaving(0.01, 0.2),
            healthy=leaving(0.01, 0.05),
        ),
    },
)
