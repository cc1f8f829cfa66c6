import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    CHANCE,
    SAMPLES,
    Data,
    Example,
    Small,
    compared_leaves,
    in_order,
    labelled,
    labels,
    load,
    of_the_project,
    on_datasets,
    part,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    split = data.train
    if not in_order(data):
        return
    own, place = part(data, split), data.roles.target
    if data.roles.classes is None:  # a loss that is written by hand may compare labels with each other alone
        place = only_integers(data)
        own = load(split, own.indices, replace(data.roles, target=place), data.trainer, data.until)
    known = own.of(place) if own.values else labels(data, split)
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


def only_integers(data: Data) -> str:
    """Return the place of the one integer a sample that no layer sees, and that the loss depends on."""
    if not data.train.indexable:
        raise CannotJudge("no criterion of PyTorch compares with labels")
    with of_the_project("training_step, taken with samples from all over the dataset,"):
        batch = data.train.spread(SAMPLES, data.trainer)
        found = [
            place
            for place, leaf, belongs in compared_leaves(data.trainer, data.pl_module, batch)
            if belongs and leaf.ndim == 1 and not leaf.is_floating_point()
        ]
    if len(found) != 1:
        raise CannotJudge(
            "no criterion of PyTorch compares with labels, and no one part of a batch is known to be them"
        )
    return found[0]


class Pairs(Small):
    """Draws samples of one label together."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        apart = torch.cdist(answers, answers)
        return torch.where(labels[:, None] == labels, apart, (1 - apart).relu()).mean()


def by_class(shuffle: bool = False, batch_size: int = 16) -> DataLoader:
    inputs, known = labelled().tensors
    order = known.argsort()
    return DataLoader(TensorDataset(inputs[order], known[order]), batch_size, shuffle=shuffle)


PROBE = Probe(
    question="Are the classes mixed in the order in which training reads its samples?",
    why="every batch holds one class or two: the network forgets the others, and the loss swings",
    fix=Fix("shuffle=True in train_dataloader"),
    detect=detect,
    faulty=on_datasets(lambda: by_class(shuffle=False)),
    healthy=on_datasets(lambda: by_class(shuffle=True)),
    also_faulty=(Example(Pairs, lambda: by_class(shuffle=False)),),
    also_healthy=(Example(Pairs, lambda: DataLoader(labelled(), 16)), on_datasets(lambda: by_class(batch_size=160))),
)
