import time
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Subset, random_split

from training_checklist.instruments import (
    Data,
    Example,
    Validated,
    by_index,
    content_of,
    digest_of,
    given_before,
    history,
    isolate_rng,
    known,
    labelled,
    load_items,
    of_function,
    pass_on,
    splits,
    tested,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe

# Of each set. Two thirds of a pool of up to 10,000 share three of 200 samples or more, of which seldom none is met.
SHARED = 200
# Places where samples are compared with those that another setup puts there, and how many of them must differ from
# each other: a one-hot target in the order of its classes does not, and samples that stand there three times over do.
PLACES, DIFFERENT = 64, 16
SECONDS = 3  # of the five that limit_batches takes for samples beyond those of the run


def detect(data: Data, limits: Limits) -> Hits:
    before, (found, error) = known(data, history), tested(data)
    if error or not found:
        raise CannotJudge(error or "setup('test') is not called: nothing is tested")
    if before is not None and 0 < before.frozen == before.marked:
        raise CannotJudge("a sample that stays as it first came out is another one in a new dataset")
    dataset, now = by_index(data.train).dataset, splits("train", pass_on(data.source.train_dataloader))
    first = content_of(dataset)
    if len(now) != 1 or first is None or first != content_of(dataset):
        raise CannotJudge("the training set gives no sample twice in the same way")
    if content_of(now[0].dataset) in (first, given_before(data)):
        return
    if first != given_before(data):
        raise CannotJudge("train_dataloader gives other samples than before, without another setup")
    if keeps_a_part(dataset, now[0].dataset):
        raise CannotJudge("the training samples are the same ones, of which setup makes a part anew")
    if hold_the_same(dataset, now[0].dataset):
        raise CannotJudge("the training samples are the same ones in another order")
    if not share_a_sample(dataset, now[0].dataset):
        raise CannotJudge("setup makes other samples each time, and splits none anew")
    line = of_function(type(data.source).setup)
    place = data.train.place.beside(file=line.file, line=line.line, function=line.function)
    if isinstance(now[0].dataset, Subset) and now[0].dataset.dataset is dataset:
        yield Hit(
            f"setup('test') takes {len(now[0].dataset)} of the {len(dataset)} training samples that setup('fit') made",
            place,
            "setup is called for each stage: each time it leaves less of what it has taken a part of",
            Fix("let setup take its part once, where it makes the whole set"),
        )
        return
    what = "setup('test') has made another training set than setup('fit') did: the split is drawn anew"
    if any(not each.indexable or share_a_sample(dataset, each.dataset) for each in found):
        yield Hit(what, place)
    else:  # a dataset of its own
        why = "what is validated from then on was trained on before; the test set shares no sample with it"
        yield Hit(what, place, why, severity=WARNING)


def keeps_a_part(one: Any, other: Any) -> bool:
    """Whether an array or text by which samples differ is at each place what it was, as under augmentation.

    Numbers do not count: labels are often in order, and an index is its place in any split.
    """
    if len(one) != len(other):
        return False
    until, before, after = time.monotonic() + SECONDS, [], []
    order = torch.randperm(len(one), generator=torch.Generator().manual_seed(0))
    with isolate_rng():
        for place in order[:PLACES].tolist():
            if time.monotonic() > until:
                break
            before.append(arrays_of(load_items(one, [place])))
            after.append(arrays_of(load_items(other, [place])))
    parts = zip(zip(*before, strict=False), zip(*after, strict=False), strict=False)
    return any(was == now and len({*was}) >= DIFFERENT for was, now in parts)


def arrays_of(sample: Any) -> list[str]:
    leaves = tree_leaves(sample)
    return [digest_of(leaf) for leaf in leaves if isinstance(leaf, str) or getattr(leaf, "shape", ()) not in ((), (1,))]


def share_a_sample(one: Any, other: Any) -> bool:
    """Whether two sets have a sample in common, as splits of one pool have; true, too, where that takes too long."""
    if isinstance(one, Subset) and isinstance(other, Subset):  # the pools, of which each has drawn its part
        return one.dataset is other.dataset or share_a_sample(one.dataset, other.dataset)
    until, found = time.monotonic() + SECONDS, []
    for dataset in (one, other):
        count = len(dataset)
        keys = sorted({count * part // SHARED for part in range(SHARED)})
        found.append({content_of(dataset, [key]) for key in keys if time.monotonic() < until} - {None})
    return time.monotonic() > until or not all(found) or not found[0].isdisjoint(found[1])


def hold_the_same(one: Any, other: Any) -> bool:
    """Whether two sets have the same samples, in whatever order; false where that takes too long."""
    if len(one) != len(other):
        return False
    until, found = time.monotonic() + SECONDS, []
    for dataset in (one, other):
        found.append([content_of(dataset, [key]) for key in range(len(dataset)) if time.monotonic() < until])
    return len(found[1]) == len(one) and {*found[0]} == {*found[1]}


class Drawn(Validated):
    def __init__(self) -> None:
        super().__init__()
        self.pool, self.generator = labelled(), torch.default_generator

    def setup(self, stage: str) -> None:
        self.parts = random_split(self.pool, [100, 60], generator=self.generator)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.parts[0], 16)

    val_dataloader = test_dataloader = lambda self: DataLoader(self.parts[1], 16)
    test_step = Validated.validation_step


class OfItsOwn(Drawn):
    """Tests on other samples, in an order that is drawn."""

    def test_dataloader(self) -> DataLoader:
        other = labelled()
        return DataLoader(Subset(other, torch.randperm(len(other)).tolist()), 16)


class CutAgain(Drawn):
    def __init__(self) -> None:
        super().__init__()
        self.parts = random_split(self.pool, [100, 60], torch.Generator().manual_seed(0))

    def setup(self, stage: str) -> None:
        self.parts = [Subset(part, range(len(part) * 9 // 10)) for part in self.parts]


class DrawnOnce(Drawn):
    def setup(self, stage: str) -> None:
        self.generator = torch.Generator().manual_seed(0)
        super().setup(stage)


class Curriculum(DrawnOnce):
    """Trains on more samples after the first epoch."""

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Subset(self.parts[0], range(100 if self.current_epoch else 40)), 16)


PROBE = Probe(
    question="Does setup() make the same split each time that it is called?",
    why="setup is called for each stage: what is tested on then was trained on before",
    fix=Fix("draw it by a seed of its own: torch.randperm(n, generator=torch.Generator().manual_seed(seed))"),
    detect=detect,
    faulty=Example(Drawn, None),
    also_faulty=(Example(CutAgain, None), Example(OfItsOwn, None)),
    healthy=Example(DrawnOnce, None),
    also_healthy=(Example(Curriculum, None),),
)
