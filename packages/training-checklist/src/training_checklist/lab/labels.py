"""The labels of splits, as many as can be had."""

from collections import Counter

import torch
from torch import Tensor

from training_checklist.engines.places import is_in_loop
from training_checklist.engines.splits import Split
from training_checklist.lab.class_weights import ClassWeights
from training_checklist.lab.data import Data, part
from training_checklist.lab.shared import once
from training_checklist.lab.stored import stored_labels
from training_checklist.probe import CannotJudge

ENOUGH = 20  # labels of a class, by which its share of the whole is known to a quarter


def classes(data: Data) -> int:
    """Return how many classes the network tells apart.

    Raises:
        CannotJudge: it tells none.
    """
    if data.roles.classes is None:
        raise CannotJudge("the criterion compares with no labels")
    return data.roles.classes


@once
def labels(data: Data, split: Split) -> Tensor:
    """Return the labels of a split, in the order of the dataset; none of others than one for each sample."""
    own, found = part(data, split), None
    known = own.of(data.roles.target)
    if known is None or known.ndim != 1:
        size = split.loader.batch_size
        one_each = [each for each in data.seen.labels if each.ndim == 1 and len(each) == size]
        streamed = split.stage == "train" and not split.indexable and one_each
        return torch.cat(one_each) if streamed else torch.tensor([])
    if known.is_floating_point() and bool((known != known.round()).any()):  # numbers of another task
        return torch.tensor([])
    if not known.is_floating_point():
        found = stored_labels(split.dataset, own.indices, known)
    return known if found is None else found


def only_round() -> None:
    """Raise `CannotJudge` where the script trains in a loop: what one round lacks may be in another one."""
    if is_in_loop():
        raise CannotJudge("the script trains in a loop: other classes may be another round's")


@once
def counts(data: Data, split: Split) -> Counter[int]:
    """Return how often each label occurs; labels without an output left out."""
    known, number = labels(data, split).long(), classes(data)
    known = known[(known != data.roles.ignored) & (known >= 0) & (known < number)]
    return Counter(known.tolist())


@once
def class_weights(data: Data) -> list[ClassWeights]:
    """Return the weights of classes that criteria were given, the same in all batches.

    Raises:
        CannotJudge: they were given none.
    """
    weighted = data.seen.weighted
    found = [weights for line, weights in weighted.found.items() if line not in weighted.changing]
    if not found:
        raise CannotJudge("no criterion is given weights of classes")
    known = labels(data, data.train)
    known = known[known != data.roles.ignored].long()
    for weights in found:
        number = len(weights.weights)
        if known.numel() and int(known.min()) >= 0 and int(known.max()) < number:
            whole = known.bincount(minlength=number).tolist()
            weights.sampled = len(labels(data, data.train)) < data.train.samples
            weights.whole = whole if not weights.sampled or min(whole) >= ENOUGH else []
    return found
