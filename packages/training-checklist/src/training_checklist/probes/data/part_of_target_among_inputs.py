import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from training_checklist.instruments import LEAST, Data, Example, Regression, Validated, normal, on_datasets, part
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

MOST_NUMBERS = 256  # of a target, which are held against each number of a window
MOST_OF_WINDOW = 20_000  # numbers
ROUNDING = 1e-6  # of a correlation: float32 keeps 7 digits, and a sum of squares loses one


def detect(data: Data, limits: Limits) -> Hits:
    yield from of_windows(data, limits)
    yield from of_things(data, limits)


def of_windows(data: Data, limits: Limits) -> Hits:
    """Hold each number that the loss compares with against each of the inputs, where these are windows."""
    roles, own = data.roles, part(data, data.train)
    inputs = [(place, own.of(place)) for place in sorted(roles.inputs - {roles.target} - roles.compared)]
    known = [(place, values) for place, values in inputs if values is not None and values.is_floating_point()]
    windows = [(place, values) for place, values in known if values.ndim > 2 and values[0].numel() <= MOST_OF_WINDOW]
    for name in sorted(roles.compared | {roles.target} - {None}) if windows else ():
        target = own.of(name)
        if target is None or not target.is_floating_point() or len(target) < LEAST:
            continue
        if target[0].numel() > MOST_NUMBERS or (target[0].numel() == 1 and name != roles.target):
            continue
        answers, varies = standardised(target)
        found: dict[str, str] = {}
        for place, values in windows:
            rows, _ = standardised(values)
            alike = (answers.T @ rows / len(rows)).abs() > 1 - ROUNDING
            pairs = [(number, int(alike[number].nonzero()[0])) for number in alike.any(1).nonzero().flatten().tolist()]
            if not all(are_beginnings(*pair, target, values) for pair in pairs):
                found |= {at(name, one, target): at(place, other, values) for one, other in pairs} | found
        # Of a target of one number, the inputs hold all or nothing.
        if found and (len(found) <= limits.max_share * int(varies.sum()) or int(varies.sum()) == 1):
            [(answer, place), *more] = found.items()
            further = f", and {len(more)} more of its numbers stand there too" if more else ""
            yield Hit(
                f"{answer}, which is to be predicted, stands among the inputs, as {place}, in all of {len(target)} "
                f"samples{further}",
                data.train.place.beside(note=place),
            )


def of_things(data: Data, limits: Limits) -> Hits:
    """Hold each number that stands for a thing, such as an item, against sequences of such numbers in its batch.

    A thing that is asked for: where the criterion does not tell it, any that the loss depends on.
    """
    roles = data.roles
    asked = {*roles.inputs, *roles.compared} if roles.target is None else {roles.target}
    kinds: dict[str, list[int]] = {}
    columns: dict[tuple[str, str], set[int]] = {}  # counted from the end: lengths may vary
    for batch in data.seen.whole_numbers:
        for place, single in batch.items():
            if single.ndim != 1 or place not in asked:
                continue
            kinds.setdefault(place, []).extend(single.tolist())
            for name, sequences in batch.items():
                if sequences.ndim == 2 and sequences.shape[1] > 1 and len(sequences) == len(single):
                    alike = (sequences == single[:, None]).all(0).nonzero().flatten() - sequences.shape[1]
                    columns.setdefault((place, name), set(alike.tolist())).intersection_update(alike.tolist())
    for (single, sequences), found in columns.items():
        samples, different = len(kinds[single]), len(set(kinds[single]))
        if found and samples >= LEAST and different >= limits.kinds_of_things:
            place = f"{sequences}[:, {min(found)}]"
            yield Hit(
                f"{single}, one of {different} different numbers, stands among the inputs, as {place}, in all of "
                f"{samples} samples",
                data.train.place_of("__getitem__").beside(note=place),
            )


def standardised(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, numbers) with mean 0 and deviation 1, or 0 where they don't vary, and which of them do."""
    rows = values.reshape(len(values), -1).double()
    rows = rows - rows.mean(0)
    deviations = rows.std(0, correction=0)
    varies = deviations > ROUNDING * rows.abs().amax(0).clamp_min(1e-30)
    return torch.where(varies, rows / deviations.clamp_min(1e-300), 0.0), varies


def are_beginnings(number: int, other: int, target: Tensor, values: Tensor) -> bool:
    """Whether a number of the target and one of the inputs are of the first step of two sequences of one length.

    Those of a running sum, or of a filter's answer to its input, are the same.
    """
    if target.ndim < 2 or target.shape[1] != values.shape[1]:
        return False
    return all(np.unravel_index(place, each.shape[1:])[0] == 0 for place, each in ((number, target), (other, values)))


def at(place: str, number: int, values: Tensor) -> str:
    """Return the place in a batch of a number of each sample: "batch[0][:, 23, 0]"."""
    if values.ndim < 2:
        return place
    return f"{place}[:, {', '.join(str(int(each)) for each in np.unravel_index(number, values.shape[1:]))}]"


def overlapping(numbers: int) -> Example:
    """Predict four days by the eight before them, of which so many are the first of the four."""

    def windows() -> TensorDataset:
        series = normal(160, 12)
        return TensorDataset(series[:, numbers : numbers + 8, None], series[:, 8:])

    return on_datasets(windows, windows, module=Regression)


def summed() -> TensorDataset:
    """Predict from two series the running sum of the first one."""
    series = normal(160, 8).reshape(160, 4, 2)
    return TensorDataset(series, series[..., 0].cumsum(1))


class Ranking(Validated):
    """Predicts which of 24 items comes after four others."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(100, 8), nn.Linear(16, 100)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.table(inputs).mean(1))


def followed(kinds: int, own: bool = True) -> Example:
    """Predict one of so many items, which stands in front of the items before it, or another one does."""

    def sequences() -> TensorDataset:
        item, noise = torch.arange(160) % kinds, (8 * normal(160, 4)).long() % 50
        return TensorDataset(torch.cat([(item if own else item.flip(0))[:, None], noise], 1), item)

    return on_datasets(sequences, sequences, module=Ranking)


class WithLast(Ranking):
    """Is also given the last of the items before."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch[0]) + self.head(self.table(batch[2]).repeat(1, 2)), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx))


def with_last() -> TensorDataset:
    items = (8 * normal(160, 5)).long() % 50
    return TensorDataset(items[:, :4], items[:, 4], items[:, 3])


PROBE = Probe(
    question="Do the inputs of a forecast end before its target begins?",
    why="a window that is a step too long, or a target that begins a step too early, lets the network copy what it "
    "should predict: its error is too good, and in use that input does not exist yet",
    severity=WARNING,
    fix=Fix(
        "end the inputs at the step before the first one of the target: x = series[i : i + n]; y = series[i + n :]"
    ),
    detect=detect,
    faulty=overlapping(1),
    also_faulty=(followed(24),),
    healthy=overlapping(2),
    also_healthy=(
        followed(24, own=False),
        on_datasets(summed, summed, module=Regression),
        on_datasets(with_last, with_last, module=WithLast),
    ),
    thresholds={
        "kinds_of_things": Threshold(
            20,
            "different numbers that stand for things, such as items: of fewer, it may well be a class that is told "
            "beside a sequence",
            factor=2.0,
            faulty=followed(24),
            healthy=followed(12),
        ),
        "max_share": Threshold(
            0.25,
            "of the target: a decoder that is given the series again, or a network that makes its inputs anew, has "
            "most of its target among them",
        ),
    },
)
