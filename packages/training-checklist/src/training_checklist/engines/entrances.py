"""Which tensors of a batch enter a network, followed through every operation on the way to the first weights."""

import weakref
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from training_checklist.engines.batches import inside, leaves
from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import Place

LOOKS_UP = {"embedding", "embedding_bag"}
NORMALISES = {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"}
# Take a tensor for its shape, type and device alone: a state that begins at 0, noise.
LIKE = {f"{kind}_like" for kind in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")}
LIKE |= {f"new_{kind}" for kind in ("zeros", "ones", "full", "empty", "tensor")}
JOINS = {"cat", "concat", "concatenate", "hstack"}  # as numbers of a table with embeddings of its categories
TOGETHER = JOINS | {"stack", "vstack", "dstack", "column_stack"}  # as the place and the time of a point
PRODUCTS = {"matmul", "rmatmul", "mm", "bmm", "einsum", "tensordot"}  # on either side of which weights may stand
# With a parameter itself, as numbers become tokens; a mask multiplies answers, too, and a token where it names some.
BY_ELEMENT = {"mul", "rmul", "multiply"}
ON_BOTH_SIDES = PRODUCTS | BY_ELEMENT
MULTIPLIES = {
    *PRODUCTS,
    *("linear", "bilinear", "lstm", "gru", "rnn_tanh", "rnn_relu"),
    *(f"conv{transposed}{n}d" for n in (1, 2, 3) for transposed in ("", "_transpose")),
    "multi_head_attention_forward",
}
ENTERED = MULTIPLIES | BY_ELEMENT | LOOKS_UP | NORMALISES


@dataclass
class Entrance:
    """A tensor as the first layer with weights takes it, and as it is joined to what other layers have made.

    Args:
        leaf: the tensor of the batch that it was made of, by its place; the largest where there are several.
        beside: the other ones that it was joined of.
        operation: of torch that takes it: "conv2d", "embedding".
        place: of the layer.
        value: what enters.
        rows: of the table of an embedding, None of other layers.
        columns: that the tensor of the batch has: its last dimension.
    """

    leaf: str
    operation: str
    place: Place
    value: Tensor
    rows: int | None
    columns: int
    beside: frozenset[str] = frozenset()


class Entrances(Listener):
    """Keeps what enters the network of one batch after another."""

    def __init__(self) -> None:
        self.found: list[Entrance] = []
        self.begin(None)

    def begin(self, batch: Any) -> None:
        """Follow the tensors of this batch from now on."""
        self.found.clear()
        self._leaves = leaves(batch)
        # Tensors made of the batch and of no weights, with the places they are made of; kept, so that ids stay theirs.
        self._made = {id(leaf): (leaf, frozenset({place})) for place, leaf in self._leaves.items()}
        self._parts: dict[int, frozenset[str]] = {}  # of tensors in `_made`: the places that they were joined of
        self._joined: dict[int, tuple[Tensor, list[Tensor]]] = {}  # to what layers have made, with the parts
        # What is made with weights: of frozen ones it requires no gradient. An id may be that of another tensor later.
        self._answers: dict[int, weakref.ref[Tensor]] = {}

    def narrow(self, prefix: str) -> None:
        """Keep what entered of the part of the batch whose places begin so, by the places in that part."""
        places = [(each, inside(each.leaf, prefix)) for each in self.found]
        self.found[:] = [
            replace(each, leaf=place, beside=frozenset(filter(None, (inside(one, prefix) for one in each.beside))))
            for each, place in places
            if place is not None
        ]

    def made_of(self, tensor: Any) -> frozenset[str]:
        """Return the places in the batch that a tensor was made of without any weights; none of other tensors."""
        return self._made.get(id(tensor), (None, frozenset()))[1]

    def before(self, call: Call) -> None:
        name = call.name.strip("_")
        if name in JOINS and any(self._is_weight(tensor) for tensor in call.given):
            for tensor in call.given:
                self._enter(tensor, call, None)
            return
        if name not in ENTERED:
            return
        if any(self._multiplies(tensor, name) for tensor in call.given):
            rows = len(call.argument("weight", 1)) if name in LOOKS_UP else None
            first = call.args[0] if call.args else call.kwargs.get("input", call.kwargs.get("query"))
            for value in call.given if name in ON_BOTH_SIDES else [first]:
                for part in self._joined.get(id(value), (value, [value]))[1]:
                    self._enter(part, call, rows)

    def _enter(self, value: Any, call: Call, rows: int | None) -> None:
        origins = self.made_of(value)
        if origins:
            leaf = self._largest(origins)
            columns = self._leaves[leaf].shape[-1] if self._leaves[leaf].ndim > 1 else 1
            beside = self._parts.get(id(value), frozenset()) - {leaf}
            self.found.append(Entrance(leaf, call.name.strip("_"), call.place, value.detach(), rows, columns, beside))

    def after(self, call: Call) -> None:
        if call.name in LIKE:
            return
        origins = frozenset().union(*(self.made_of(tensor) for tensor in call.given))
        if any(self._is_weight(tensor) for tensor in call.given):
            self._answers.update((id(made), weakref.ref(made)) for made in call.made)
            if origins and call.name in JOINS:
                self._joined.update((id(made), (made, call.given)) for made in call.made)
        elif origins:
            self._made.update((id(made), (made, origins)) for made in call.made)
            if parts := frozenset().union(*(self._parts_of(tensor, call.name) for tensor in call.given)):
                self._parts.update((id(made), parts) for made in call.made)

    def _parts_of(self, given: Tensor, operation: str) -> frozenset[str]:
        """Return the places that a tensor brings into what it is joined of: its own, where it is joined just now."""
        parts, own = self._parts.get(id(given), frozenset()), self.made_of(given)
        return frozenset({self._largest(own)}) if operation in TOGETHER and own and not parts else parts

    def _largest(self, places: frozenset[str]) -> str:
        return max(sorted(places), key=lambda place: self._leaves[place].numel())

    def _multiplies(self, tensor: Tensor, name: str) -> bool:
        """Whether a tensor is the weights of an operation; a single number only scales."""
        if name in BY_ELEMENT:
            return isinstance(tensor, nn.Parameter) and tensor.numel() > 1
        return self._is_weight(tensor)

    def _is_weight(self, tensor: Tensor) -> bool:
        """Whether it is one, or an answer that layers have made with some."""
        if isinstance(tensor, nn.Parameter):
            return True
        answer = self._answers.get(id(tensor))
        return (answer is not None and answer() is tensor) or (tensor.requires_grad and id(tensor) not in self._made)
