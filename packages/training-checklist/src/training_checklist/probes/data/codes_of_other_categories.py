import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from training_checklist.instruments import (
    MOST,
    Data,
    Example,
    Part,
    Regression,
    Split,
    normal,
    on_datasets,
    shift,
    tables,
    whole_table,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Hold each code of categories, (N,) or (N, columns), against each of another split's, by what goes with it."""
    own, other = whole_table(data, data.train), whole_table(data, split)
    plain = both_described(data, own, other)
    described_by = [plain, tuple(map(standardised, plain))]  # prices that all rise are no other categories
    for place in sorted(data.roles.inputs):
        one, two = own.of(place), other.of(place)
        if one is None or two is None or one.is_floating_point() or one.ndim > 2 or one.shape[1:] != two.shape[1:]:
            continue
        columns = [each.reshape(len(each), -1).T for each in (one, two)]
        for number, (first, second) in enumerate(zip(*(each[:MOST] for each in columns), strict=True)):
            name = f"{place}[:, {number}]" if one.ndim == 2 else place
            pairs = [(described(first, mine, limits), described(second, its, limits)) for mine, its in described_by]
            found, drifted = (renamed(*each, limits) for each in pairs)
            found = found if drifted else {}
            pairs = ", ".join(f"what is {a} in training is {b} there" for a, b in list(found.items())[:4])
            if found:
                yield Hit(
                    f"codes of {name} stand for other categories in {split.name}: {pairs}",
                    split.place.beside(note=name),
                )


def renamed(one: dict, two: dict, limits: Limits) -> dict[int, int]:
    """Return which code looks like which other one.

    One code may have changed with time; that several look like one another's is another list of categories.
    """
    shifts = {code: {also: shift(a, b) for also, b in two.items()} for code, a in one.items() if code in two}
    moved = {code: row for code, row in shifts.items() if row[code] > limits.code_apart}
    found = {}
    for code, row in moved.items():
        like = min(row, key=row.__getitem__)
        if row[like] < limits.code_alike and row[like] * limits.code_nearer < row[code]:
            found[code] = like
    return found if len(found) > 1 and 2 * len(found) > len(moved) and len({*found.values()}) == len(found) else {}


def both_described(data: Data, own: Part, other: Part) -> tuple[Tensor, Tensor]:
    """Return what goes with each sample of two splits: the columns of its tables, and its target; (N, numbers)."""
    places = [place for place, values in tables(data, own) if values.ndim == 2]
    places += [data.roles.target] if data.roles.target is not None else []
    pairs = [(own.of(place), other.of(place)) for place in places]
    pairs = [(one, two) for one, two in pairs if one is not None and two is not None]
    pairs = [(one, two) for one, two in pairs if one[0].numel() == two[0].numel()]
    if not pairs:
        raise CannotJudge("no numbers or targets stand beside the codes")
    mine, theirs = (
        torch.cat([each.reshape(len(each), -1).double() for each in side], 1) for side in zip(*pairs, strict=True)
    )
    if not (mine.isfinite().all() and theirs.isfinite().all()):
        raise CannotJudge("what stands beside the codes is not finite")
    return mine, theirs


def standardised(numbers: Tensor) -> Tensor:
    return (numbers - numbers.mean(0)) / numbers.std(0).clamp_min(1e-300)


def described(codes: Tensor, numbers: Tensor, limits: Limits) -> dict[int, tuple[Tensor, Tensor]]:
    """Return for each code that stands often enough the means of what goes with it, and their standard errors."""
    rows = {int(code): numbers[codes == code] for code in codes.unique()}
    often = {code: each for code, each in rows.items() if len(each) >= limits.code_samples}
    return {code: (each.mean(0), each.std(0) / len(each) ** 0.5) for code, each in often.items()}


class Looked(Regression):
    """Looks codes up."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.table(inputs))


def exchanged(apart: float, alike: float = 0.0, often: int = 40) -> Example:
    """Exchange 0 with 1 and 2 with 3, codes that are so many standard errors apart, and move all by so many besides."""
    codes = torch.arange(4 * often) % 4
    noise = torch.linspace(-1, 1, often).repeat_interleave(4)[:, None]
    error = float(noise.std()) * (2 / often) ** 0.5
    steps = error * torch.tensor([0.0, apart, 100.0, 100.0 + apart])
    train, held = steps[codes, None] + noise, steps[codes ^ 1, None] + noise + alike * error
    return on_datasets(lambda: TensorDataset(codes, train), lambda: TensorDataset(codes, held), module=Looked)


def rising() -> Example:
    """Return numbers that rise from code to code, and all of them by as much from one split to the next."""
    codes = torch.arange(200) % 4

    def split(risen: int) -> TensorDataset:
        return TensorDataset(codes, codes[:, None] + risen + 0.5 * normal(200, 1, seed=risen))

    return on_datasets(lambda: split(0), lambda: split(1), module=Looked)


PROBE = Probe(
    question="Does each code of a categorical column stand for the same category in all splits?",
    why="the embedding row that the network looks up was learnt for another category",
    fix=Fix("number the categories once, by those of the training set, and use that list for every split"),
    detect=detect,
    faulty=exchanged(9),
    healthy=exchanged(3),
    also_healthy=(rising(),),
    thresholds={
        "code_samples": Threshold(
            20,
            "samples of a code, of whose mean the standard error is then known to a sixth",
            healthy=exchanged(9, often=12),
        ),
        "code_apart": Threshold(5.0, "standard errors: chance makes that of one code in a million"),
        "code_alike": Threshold(
            3.5,
            "standard errors: chance makes more of one of 2,000 numbers that go with a code",
            faulty=exchanged(30, 2),
            healthy=exchanged(30, 6),
        ),
        "code_nearer": Threshold(
            2.0,
            "times as near to another code of the split as to its own: so that one is not just between the two",
            factor=2.0,
            faulty=exchanged(12, 3),
            healthy=exchanged(8.5, 3),
        ),
    },
)
