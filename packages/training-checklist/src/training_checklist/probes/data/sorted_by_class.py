import math

from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import CHANCE, Data, classes, in_order, labelled, labels, on_datasets, part
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    split = data.train
    if not in_order(data):
        return
    classes(data)
    own = part(data, split)
    known = own.of(data.roles.target) if own.values else labels(data, split)
    if known is None or not len(known):
        raise CannotJudge("no training labels were seen")
    counts, runs = known.unique(return_counts=True)[1].tolist(), 1 + int((known[1:] != known[:-1]).sum())
    if len(counts) < 2:
        raise CannotJudge("fewer than two classes were seen")
    # One run a class: so many orders of all orders that these labels can have.
    sorted_orders = math.lgamma(len(counts) + 1) + sum(math.lgamma(count + 1) for count in counts)
    likely = sorted_orders - math.lgamma(sum(counts) + 1) > math.log(CHANCE)
    if runs == len(counts) and not likely:
        yield Hit(
            f"the training set is read in order ({split.sampler}), and it is sorted by class: {runs} runs of equal "
            f"labels in {sum(counts)}",
            split.place.beside(note=f"sampler {split.sampler} over {split.place.note}"),
        )


def by_class(shuffle: bool) -> DataLoader:
    inputs, known = labelled().tensors
    order = known.argsort()
    return DataLoader(TensorDataset(inputs[order], known[order]), 16, shuffle=shuffle)


PROBE = Probe(
    question="Are the classes mixed in the order in which training reads its samples?",
    why="every batch holds one class or two: the network forgets the others, and the loss swings",
    fix=Fix("shuffle=True in train_dataloader"),
    detect=detect,
    faulty=on_datasets(lambda: by_class(shuffle=False)),
    healthy=on_datasets(lambda: by_class(shuffle=True)),
)
