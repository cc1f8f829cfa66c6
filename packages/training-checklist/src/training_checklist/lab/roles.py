"""What each tensor of a batch is for: told by where it enters the network and the criterion, never by its shape."""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from training_checklist.engines.batches import inside, leaves, same
from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.entrances import Entrances


@dataclass
class Roles:
    """The places in a batch of what is learned from.

    Args:
        input: the largest tensor of numbers that enters the network, None where none was seen to.
        inputs: all that enter it, of whatever type.
        direct: those that enter the network or a criterion as they are, so that nothing masks their values.
        tables: rows of the embedding that a tensor of indices enters as it is.
        target: the tensor that the criterion compares with, as it is or encoded one-hot.
        classes: of the network, where the target is class indices.
        ignored: the label that stands for none.
        compared: those that the loss depends on and no layer sees: targets, masks, weights.
    """

    input: str | None = None
    inputs: frozenset[str] = frozenset()
    direct: frozenset[str] = frozenset()
    tables: dict[str, int] = field(default_factory=dict)
    target: str | None = None
    classes: int | None = None
    ignored: int = -100
    compared: frozenset[str] = frozenset()

    @property
    def places(self) -> list[str]:
        """All of them, each once."""
        return list(
            dict.fromkeys(place for place in (*self.inputs, self.target, *sorted(self.compared)) if place is not None)
        )

    def within(self, prefix: str, entrances: Entrances) -> "Roles":
        """Return what those tensors are for whose places begin so, by what follows that."""
        own = partial(inside, prefix=prefix)
        return Roles(
            own(largest_input(entrances, prefix)),
            frozenset(filter(None, map(own, self.inputs))),
            frozenset(filter(None, map(own, self.direct))),
            {place: rows for each, rows in self.tables.items() if (place := own(each))},
            own(self.target),
            self.classes,
            self.ignored,
            frozenset(filter(None, map(own, self.compared))),
        )


def largest_input(entrances: Entrances, prefix: str = "batch") -> str | None:
    numbers = [each for each in entrances.found if each.value.is_floating_point() and each.leaf.startswith(prefix)]
    return max(numbers, key=lambda each: each.value.numel()).leaf if numbers else None


def roles_of(batch: object, entrances: Entrances, criteria: list[CriterionCall]) -> Roles:
    """Return what the tensors of a batch are for, whose losses are criteria or differences of answers and targets."""
    parts = leaves(batch)
    direct = {each.leaf for each in entrances.found if same(each.value, parts[each.leaf])}
    tables = {each.leaf: each.rows for each in entrances.found if each.rows is not None and each.leaf in direct}
    inputs = frozenset().union(*({each.leaf} | each.beside for each in entrances.found))
    roles = Roles(largest_input(entrances), inputs, tables=tables)
    for call in criteria:
        origins = entrances.made_of(call.target)
        place = next(iter(origins)) if len(origins) == 1 else ""
        if place and same(call.target, parts[place]) and call.options.get("reduction") != "none":
            direct.add(place)
        classes = label_classes(call, parts[place]) if place else None
        if roles.classes is None and classes is not None:
            roles.target, roles.classes, roles.ignored = place, classes, call.ignored
        elif roles.target is None and place and call.target.is_floating_point() and same(call.target, parts[place]):
            roles.target = place
    roles.direct = frozenset(direct)
    return roles


def label_classes(call: CriterionCall, leaf: Tensor) -> int | None:
    """Return how many classes there are if a criterion's target is the labels in `leaf`, else None."""
    target = call.target
    if call.num_classes is not None:
        return call.num_classes if same(target, leaf) and not leaf.is_floating_point() else None
    if leaf.ndim != 1 or len(leaf) != len(target):
        return None
    if call.name.startswith("binary") and target.numel() == len(leaf):
        binary = bool(((target == 0) | (target == 1)).all())
        return 2 if binary and same(target, leaf) else None
    one_hot = target.ndim == 2 and target.shape == call.input.shape and not leaf.is_floating_point()
    one_hot = one_hot and target.shape[1] > 1 and torch.equal(target.argmax(1), leaf.long())
    return target.shape[1] if one_hot and bool((target.sum(1) == 1).all()) else None
