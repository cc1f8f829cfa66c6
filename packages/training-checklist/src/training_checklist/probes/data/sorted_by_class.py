import math

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    CHANCE,
    SAMPLES,
    Data,
    Example,
    Small,
    classes,
    compared_leaves,
    in_order,
    labelled,
    labels,
    of_the_project,
    on_datasets,
    part,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    split = data.train
    if not in_order(data):
        return
    own = part(data, split)
    known = own.of(target(data)) if own.values else labels(data, split)
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


def target(data: Data) -> str | None:
    """Return the place of the labels in a batch, also of a loss that is written by hand, and compares them alone."""
    if data.roles.classes is not None or not data.train.indexable:
        classes(data)
        return data.roles.target
    with of_the_project("training_step, taken with samples of all classes,"):
        batch = data.train.spread(SAMPLES, data.trainer)
        compared = [
            place
            for place, leaf, belongs in compared_leaves(data.trainer, data.pl_module, batch)
            if belongs and leaf.ndim == 1 and not leaf.is_floating_point()
        ]
    return compared[0] if len(compared) == 1 else None


class Pairs(Small):
    """Draws samples of one label together."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        apart = torch.cdist(answers, answers)
        return torch.where(labels[:, None] == labels, apart, (1 - apart).relu()).mean()


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
    also_faulty=(Example(Pairs, lambda: by_class(shuffle=False)),),
    also_healthy=(Example(Pairs, lambda: DataLoader(labelled(), 16)),),
)
