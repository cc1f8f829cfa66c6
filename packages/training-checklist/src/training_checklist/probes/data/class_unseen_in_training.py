from training_checklist.instruments import CHANCE, Data, MappedDataset, Split, at_least, counts, on_datasets, only_round
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    only_round()
    train = counts(data, data.train)
    if not train:
        raise CannotJudge("no training labels were seen")
    held = counts(data, split)
    # That all samples of a class fall into one split, had the data been cut at random.
    share = held.total() / (held.total() + train.total())
    missing = sorted({*held} - {*train})
    unseen = [label for label in missing if at_least(held[label], held[label], share) < CHANCE]
    if unseen:
        yield Hit(
            f"class {', '.join(map(str, unseen))} is in {split.name} and not in the training set: "
            f"{sum(held[label] for label in unseen)} of {held.total()} labels against none of {train.total()}",
            split.place,
        )


def labels_below(number: int) -> MappedDataset:
    return MappedDataset(lambda index, x, y: (x, y % number))


PROBE = Probe(
    question="Does every class of the validation and test sets occur in the training set?",
    why="the network cannot learn what it never sees: the data may have been cut where they are sorted by class",
    fix=Fix("split at random, or by class (stratified)"),
    detect=detect,
    faulty=on_datasets(lambda: labels_below(3)),
    healthy=on_datasets(lambda: labels_below(3), lambda: labels_below(3)),
    also_healthy=(
        on_datasets(
            lambda: labels_below(3), lambda: MappedDataset(lambda index, x, y: (x, y % 3 if index else y * 0 + 3))
        ),
    ),
)
