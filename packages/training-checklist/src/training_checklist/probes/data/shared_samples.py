from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset

from training_checklist.instruments import (
    CHANCE,
    FILES,
    Criteria,
    Data,
    Entrances,
    Example,
    Job,
    Regression,
    Split,
    Tracer,
    Validated,
    as_in,
    at_least,
    call_step,
    digest,
    is_overridden,
    isolate_rng,
    isolated,
    labelled,
    leaves,
    normal,
    of_the_project,
    on_datasets,
    same,
    shared_samples,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out, each_judged

FEW = 8  # samples that are put through both steps
COORDINATES = (2, 3, 4)  # of a plane, of space, and of space and time
POINTS = 2000  # of a raster of 512 by 512, by which it is known: its columns have two of four neighbours then
ROUNDING = 0.1  # of the distance: what float32 makes of a thousandth part is a ten-thousandth off
MOST = 0.5  # of the numbers: of two pieces of continuous data, hardly any are the same


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    yield from each_judged([partial(compare, data, train, split, limits) for train in (data.train, *data.earlier)], "")


def compare(data: Data, train: Split, split: Split, limits: Limits) -> Hits:
    """Compare with a training set of this fit, or of one whose weights it goes on with."""
    found = shared_samples(data, train, split)
    if split.of_several and found.shared == found.total and (found.total >= found.rows or has_own(data, train, split)):
        return  # training samples alone, beside the split itself: a gallery of neighbours, or for comparison
    if found.same_dataset:
        leaks = found.shared > 0
    elif found.repeatable:
        # A fair split shares rows as often as the training set repeats its own; 3 in n: what n rows may hide.
        leaks = at_least(found.shared, found.total, min((found.repeated + 3) / max(found.rows, 1), 1.0)) < CHANCE
    else:
        leaks = found.shared > limits.max_shared * found.total
    if leaks and found.shared == found.total and is_raster(data, split):
        return  # one picture, or one field, which the network is to hold
    if leaks and (takes_other_parts(data, split) or asks_for_others(data, train, split)):
        raise CannotJudge(f"the steps take other parts of a sample of {split.name} than in training")
    if leaks and train is not data.train:
        yield Hit(
            f"{found.shared} of {found.total} samples of {split.name} were in the training set of an earlier fit, and "
            "this one goes on with its weights",
            found.place,
            fix=Fix("make the network anew for each fold, inside the loop, and its Trainer with it"),
        )
    elif leaks:
        text = f"{found.shared} of {found.total} samples of {split.name} are in the training set too"
        yield Hit(text, found.place)


def has_own(data: Data, train: Split, split: Split) -> bool:
    """Whether another loader of the split's stage has no sample of training."""
    others = [each for each in data.held_out if each.stage == split.stage and each is not split]
    with suppress(CannotJudge):
        return any(shared_samples(data, train, each).shared == 0 for each in others)
    return False


def takes_other_parts(data: Data, split: Split) -> bool:
    """Whether training and validation take pieces that differ of the same samples: by masks, or windows of a series.

    What only moves or scales numbers, such as augmentation, leaves a sample its shape, and is no cut; nor is what
    leaves most of them as they are, such as bands that are masked in a spectrogram. Or both steps ask for other targets
    of the same samples.
    """
    chosen = split.holdable(FEW, data.trainer)
    with as_in(split.stage, data.trainer):
        batch = split.batch_of(split.items(chosen), data.trainer)
    if are_parted(batch, len(chosen)):
        return True
    if split.stage != "val" or not is_overridden("validation_step", data.pl_module):
        return False
    pieces, asked = [], []
    whole = {tuple(leaf.shape[1:]) for leaf in leaves(batch).values()}
    for stage, step in (("train", "training_step"), ("val", "validation_step")):
        entrances = Entrances()
        entrances.begin(batch)
        criteria = Criteria()
        watched = Tracer(data.pl_module, entrances, criteria)
        with isolated(data.pl_module), as_in(stage, data.trainer), isolate_rng(), watched, of_the_project(step):
            call_step(data.pl_module, step, data.whole(batch) if stage == "train" else batch)
        pieces.append([each.value for each in entrances.found if tuple(each.value.shape[1:]) not in whole])
        made = [call.target for call in criteria.calls if entrances.made_of(call.target)]
        asked.append([each for each in made if not any(same(each, leaf) for leaf in leaves(batch).values())])
    if all(asked) and not any(same(one, other) for one, other in product(*asked)):
        return True  # other labels, as of other nodes of a graph
    trained, validated = ({digest(row) for value in entered for row in value} for entered in pieces)
    if not trained or not validated or not trained.isdisjoint(validated):
        return False
    return not any(one.shape == other.shape and agree(one, other) > MOST for one, other in product(*pieces))


def asks_for_others(data: Data, train: Split, split: Split) -> bool:
    """Whether other entries are asked for of the same rows, as of users: masks or targets have none in common."""
    if not (train.indexable and split.indexable) or train.samples != split.samples:
        return False
    chosen = split.chosen(FEW)
    one, other = (leaves(each.batch_of(each.items(chosen), data.trainer)) for each in (train, split))
    common = one.keys() & other.keys()
    if not any(one[path].is_floating_point() and same(one[path], other[path]) for path in common):
        return False  # their rows are not in the same order
    pairs = ((one[path] != 0, other[path] != 0) for path in common)
    return any(
        mine.ndim > 1 and mine.shape == its.shape and bool(mine.any() and its.any()) and not (mine & its).any()
        for mine, its in pairs
    )


def are_parted(batch: Any, samples: int) -> bool:
    """Whether masks part the samples of a batch, as the nodes of one graph for training and validation."""
    masks = [leaf for leaf in leaves(batch).values() if leaf.dtype == torch.bool and leaf.ndim == 1 and leaf.any()]
    of_parts = [mask for mask in masks if len(mask) != samples]
    return any(len(one) == len(other) and not (one & other).any() for one, other in combinations(of_parts, 2))


def is_raster(data: Data, split: Split) -> bool:
    """Whether samples are the points of a raster, as the pixels of one picture by their coordinates."""
    known = leaves(split.spread(POINTS, data.trainer))
    inputs = [known[path] for path in data.roles.inputs if path in known]
    if len(inputs) != 1 or inputs[0].ndim != 2 or inputs[0].shape[1] not in COORDINATES:
        return False
    return all(map(is_even, inputs[0].T))


def is_even(column: Tensor) -> bool:
    """Whether the values of a coordinate repeat, and lie at multiples of one distance."""
    levels = column.double().unique()
    if not 2 < len(levels) < len(column):
        return False
    apart = levels.diff() / levels.diff().min()
    return float((apart - apart.round()).abs().max()) < ROUNDING


def agree(one: Tensor, other: Tensor) -> float:
    """Return the share of numbers that are the same in two tensors."""
    return float((one == other).float().mean())


def with_duplicates(number: int, of: int) -> Example:
    """Hold out so many copies of training samples, among others."""
    train, held = normal(160, 8), normal(of, 8, seed=1)
    held[:number] = train[:number]
    train, held = ((each, (each[:, 0] > 0).long()) for each in (train, held))
    return on_datasets(lambda: TensorDataset(*train), lambda: TensorDataset(*held))


def of_one(first: int) -> Example:
    """Train with the first 100 samples of a dataset, and hold out those from another one on."""
    samples = cache(labelled)
    return on_datasets(lambda: Subset(samples(), range(100)), lambda: Subset(samples(), range(first, 160)))


def parted_by_samplers(*parts: range) -> Example:
    """Give both loaders one dataset, of which the sampler of each draws a part."""
    samples = cache(labelled)
    return on_datasets(*(partial(drawn_from, samples, part) for part in parts))


def drawn_from(samples: Callable[[], Dataset], part: range) -> DataLoader:
    return DataLoader(samples(), 16, sampler=SubsetRandomSampler(part))


def pixels() -> TensorDataset:
    """Return the places and values of a picture of 16 by 16."""
    places = torch.cartesian_prod(*[torch.linspace(-1, 1, 16)] * 2)
    return TensorDataset(places, (places.prod(1) > 0).long())


class Panel(Dataset):
    """A window of each of 160 series in an epoch, which ends where those of its split may at the latest."""

    def __init__(self, last: int, drawn: bool) -> None:
        self.series, self.last, self.drawn = normal(160, 48).cumsum(1), last, drawn

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        end = int(torch.randint(12, self.last + 1, ())) if self.drawn else self.last
        return self.series[index, end - 12 : end - 4], self.series[index, end - 4 : end]


def forecast(last: int) -> Example:
    """Hold out the last four numbers of each series; training draws windows up to a last one."""
    return on_datasets(lambda: Panel(last, True), lambda: Panel(48, False), module=Regression)


class Compared(Validated):
    """Is also validated on some training samples, for comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.samples = labelled()

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Subset(self.samples, range(100)), 16)

    def val_dataloader(self) -> list[DataLoader]:
        return [DataLoader(Subset(self.samples, part), 16) for part in (range(100, 160), range(50))]

    def validation_step(self, batch: list[Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        super().validation_step(batch, batch_idx)


class Field(Validated):
    """Is to hold one picture."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 16)


class OfNodes(Validated):
    """Knows by itself which nodes of a graph it is trained on, and which ones it is validated on."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch[0])[:, :100].flatten(0, 1), batch[1][:, :100].flatten())

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(self(batch[0])[:, 100:].flatten(0, 1), batch[1][:, 100:].flatten()))


def one_graph() -> TensorDataset:
    return TensorDataset(normal(1, 160, 8), torch.arange(160)[None] % 4)


def folds(anew: str) -> Job:
    """Train on each of two halves, and hold out the other one."""
    one, two = "[*range(80)]", "[*range(80, 160)]"
    fit = FILES["train.py"].index("    trainer.fit(")
    lines = f"""    samples = labelled()
    for train, held in (({one}, {two}), ({two}, {one})):
        {anew}
        train, held = (DataLoader(Subset(samples, rows), 16) for rows in (train, held))
        Trainer(**cfg.trainer, logger=False).fit(module, train, held)


main()
"""
    code = FILES["train.py"][:fit].replace("Logging(Small)", "Logging(Validated)") + lines
    code = code.replace("import Small, loader", "import Validated, labelled")
    return Job(files={"train.py": f"from torch.utils.data import DataLoader, Subset\n{code}"})


PROBE = Probe(
    question="Are validation and test samples absent from the training set?",
    why="the network knows them by heart: its metrics there say nothing about new data",
    may_be_wrong="images that are all alike, such as blank tiles, and records of few columns may be equal without "
    "being one sample",
    fix=Fix(
        "make the splits disjoint: one permutation of the indices, cut once; of files of their own, leave out of "
        "training what is in the others"
    ),
    detect=detect,
    faulty=of_one(95),
    also_faulty=(folds("trainer = None"), forecast(48), parted_by_samplers(range(100), range(95, 160))),
    healthy=of_one(100),
    also_healthy=(
        folds("module = Logging()\n        module.quiet = False"),
        on_datasets(cache(pixels), cache(pixels), module=Field),
        forecast(44),
        parted_by_samplers(range(100), range(100, 160)),
        Example(Compared, None),
        on_datasets(cache(one_graph), cache(one_graph), module=OfNodes),
    ),
    thresholds={
        "max_shared": Threshold(
            0.01,
            "share of held-out samples with an exact copy among the training ones; CIFAR-10 has 3.3 % near duplicates "
            "(Barz and Denzler 2020), of which few are exact, and MNIST's sample and scikit-learn's digits have none",
            faulty=with_duplicates(2, of=100),
            healthy=with_duplicates(1, of=200),
        )
    },
)
