from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from torch import Tensor, nn

from training_checklist.instruments import Call, Small, Step, StepListener, behind_views
from training_checklist.probe import REMARK, WARNING, Fix, Hit, Hits, Limits, Place, Probe

# What changes no value, but for leaving some out; dropout multiplies each by a number that nothing has learnt.
PASSES = {
    *("dropout", "reshape", "view", "flatten", "squeeze", "unsqueeze", "contiguous", "transpose", "permute", "getitem")
}


@dataclass
class Made:
    """What a linear layer has returned."""

    node: Any  # of autograd; held, lest another gets its id
    sizes: tuple[int, int]  # of its input and output
    learns: bool
    optimizer: int | None  # which one holds its weight
    place: Place
    readers: int = 0


class LinearPairs(StepListener):
    """Keeps the pairs of linear layers of which the second reads what the first returns."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.made: dict[int, Made] = {}
        self.answers: dict[int, tuple[tuple[int, int], Tensor]] = {}  # of layers without a gradient, and their sizes
        self.pairs: list[tuple[Made, Made]] = []
        self.nodes: list[Any] = []  # held, too
        groups = [(number, each) for number, held in enumerate(step.trainer.optimizers) for each in held.param_groups]
        self.optimizers = {id(weight): number for number, group in groups for weight in group["params"]}

    def after(self, call: Call) -> None:
        name = call.name.strip("_")
        if name == "linear":
            self.answers.pop(id(call.given[0]), None)
        if not isinstance(call.result, Tensor) or call.result.grad_fn is None:
            if name == "linear":
                weight = call.argument("weight", 1)
                self.answers[id(call.result)] = (weight.shape[1], weight.shape[0]), call.result
            return
        origins = [self._origin(each) for each in call.given]
        if name in PASSES and not turns(call):
            if origins and origins[0] is not None:
                node = behind_views(call.result.grad_fn)
                self.made.setdefault(id(node), origins[0])
                self.nodes.append(node)
            return
        for origin in origins:
            if origin is not None:
                origin.readers += 1
        if name == "linear":
            weight = call.argument("weight", 1)
            node = behind_views(call.result.grad_fn)
            sizes, held_by = (weight.shape[1], weight.shape[0]), self.optimizers.get(id(weight))
            made = Made(node, sizes, weight.requires_grad, held_by, call.place)
            self.made[id(node)] = made
            # One that begins at 0 adds to what another layer gives, as an adapter (LoRA) does: a product is meant.
            if origins and origins[0] is not None and weight.any():
                self.pairs.append((origins[0], made))

    def _origin(self, tensor: Tensor) -> Made | None:
        node = None if tensor.grad_fn is None else behind_views(tensor.grad_fn)
        return self.made.get(id(node))


def detect(step: Step, limits: Limits) -> Hits:
    pairs, heard = [], step.heard()
    # A teacher's layer of the same sizes whose output is the end: alone, the student's is an answer of its own.
    ends = {sizes for sizes, _ in heard.answers.values()}
    for first, second in heard.pairs:
        width, between, out = *first.sizes, second.sizes[1]
        # A narrower layer between leaves fewer numbers free, which may be meant; a wider one changes nothing.
        # A generator's last layer before a critic's first one is an answer, too: they have optimizers of their own.
        alone = first.sizes in ends or first.readers > 1 or first.optimizer != second.optimizer
        if not alone and first.learns and second.learns and between >= min(width, out):
            pairs.append((f"{width} -> {between} -> {out}", first.place.module or "a linear layer", second.place))
    if pairs:
        (sizes, first, place), others = pairs[0], f", and so {len(pairs) - 1} times more" if len(pairs) > 1 else ""
        # Several are a design; published networks have such pairs, and train.
        yield Hit(
            f"nothing but views and dropout stands between {first} and the linear layer after it ({sizes}){others}",
            place,
            severity=REMARK if others or ends_a_network(first, place.module) else None,
        )


def turns(call: Call) -> bool:
    """Whether another dimension comes last, along which the next layer works then: the two are of different axes."""
    last = call.given[0].ndim - 1
    return call.name in ("transpose", "permute") and call.result.stride(-1) != call.given[0].stride(last)


def ends_a_network(first: str, second: str) -> bool:
    """Whether a layer is the last of a network with a name of its own: an encoder's answer is read elsewhere, too."""
    one, other = first.split("."), second.split(".")
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return len(one) - shared > 1 and not one[shared].isdigit()


class Straight(Small):
    between: nn.Module = nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.between(self.first(inputs)))


class Bent(Straight):
    between = nn.ReLU()


class Adapted(Small):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(16, 8, bias=False), nn.Linear(8, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        between = self.first(inputs).relu()
        return self.head(between) + self.up(self.down(between))


class AlongBoth(Small):
    """Mixes first what is along one axis, then what is along the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(2, 2), nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        mixed = self.second(self.first(inputs.view(-1, 2, 4)).transpose(1, 2))
        return self.head(mixed.flatten(1).relu())


PROBE = Probe(
    question="Is there an activation between each linear layer and the next one?",
    why="the product of two linear layers is one matrix: the second adds nothing that the first could not do",
    severity=WARNING,
    fix=Fix("put an activation between the two"),
    listener=LinearPairs,
    detect=detect,
    faulty=Straight,
    healthy=Bent,
    also_healthy=(Adapted, AlongBoth),
)
