from collections import Counter

from torch import Tensor, nn
from torch.nn import functional

from training_checklist.instruments import (
    CHANCE,
    Data,
    Example,
    MappedDataset,
    Validated,
    classes,
    labels,
    on_datasets,
    only_round,
    part,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    only_round()
    number, roles, seen = classes(data), data.roles, Counter()
    if any(0 <= rows - number <= limits.max_marks for rows in roles.tables.values()):
        raise CannotJudge("the classes are words of a vocabulary")
    further = [split for split in data.held_out if split.dataset is not data.train.dataset]
    for split in (data.train, *further):
        known, dense = labels(data, split), part(data, split).of(roles.target)
        samples = len(known)
        if not samples and dense is not None:  # of pixels or time steps
            known, samples = dense.flatten(), len(dense)
        if split is data.train and samples != split.samples:
            raise CannotJudge("not all training labels were looked at")
        seen.update(known[known != roles.ignored].long().tolist())
    missing = sorted({*range(number)} - {*seen, roles.ignored})
    # So many classes are wanting by chance where all are as frequent.
    if missing and number * (1 - 1 / number) ** seen.total() > CHANCE:
        raise CannotJudge(f"{seen.total()} labels are too few to hold each of {number} classes")
    if missing and seen:
        yield Hit(
            f"class {', '.join(map(str, missing[:10]))} of {number} has not one label in any split, of {seen.total()} "
            "that were counted",
            data.train.place,
        )


def labels_below(number: int) -> Example:
    return on_datasets(*[lambda: MappedDataset(lambda index, x, y: (x, y % number))] * 2)


def words(rows: int) -> Example:
    """Predict one of four words by others, of which a table has so many rows."""

    class Looking(Validated):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(rows, 8)

        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(self.table(inputs))

    return on_datasets(*[lambda: MappedDataset(lambda index, x, y: (y, y % 3))] * 2, module=Looking)


class Ignoring(Validated):
    """Has an output for a class that stands for no label."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(answers, labels, ignore_index=0)


def unlabelled() -> Example:
    def marked() -> MappedDataset:
        return MappedDataset(lambda index, x, y: (x, y if index % 3 else y * 0))

    return on_datasets(marked, marked, module=Ignoring)


PROBE = Probe(
    question="Does every class that the network has an output for occur as a label?",
    why="its output is never right, and no metric shows it: the mapping from codes to classes may have lost the class,"
    " or num_classes is too large",
    severity=WARNING,
    may_be_wrong="a head is made wider than its data where the labels are those of another task or of a later one",
    fix=Fix("compare the codes in the files with the map to classes, and with num_classes"),
    detect=detect,
    faulty=labels_below(3),
    healthy=labels_below(4),
    also_healthy=(unlabelled(),),
    thresholds={
        "max_marks": Threshold(
            3,
            "kinds of tokens that are no words: marks of a beginning, an end and a separation",
            faulty=words(8),
            healthy=words(6),
        )
    },
)
