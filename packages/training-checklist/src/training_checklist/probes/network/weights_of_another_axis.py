from torch import Tensor, nn

from training_checklist.instruments import Call, Small, Step, StepListener, by, made_by_weights
from training_checklist.probe import WARNING, Fix, Place, Probe


class AttentionAxes(StepListener):
    """Keeps softmaxes whose result is multiplied as a matrix that adds up over another dimension."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.weights: list[tuple[Tensor, int, Place]] = []

    def after(self, call: Call) -> None:
        name, result = call.name.strip("_"), call.result
        if not call.given or not isinstance(result, Tensor):
            return
        if name == "softmax":
            dim = call.argument("dim", 1)
            # Scores that a layer gives each token are those of parts that it belongs to, as soft clusters have them.
            if isinstance(dim, int) and result.ndim > 1 and not made_by_weights(call.given[0]):
                self.weights.append((result, dim % result.ndim, call.place))
            return
        known = next((each for each in self.weights if each[0] is call.given[0]), None)
        if known is None:
            return
        weights, dim, place = known
        if name == "dropout":
            self.weights.append((result, dim, place))
        elif name in ("matmul", "bmm") and dim != weights.ndim - 1 and weights.ndim > 2:
            self.keep(
                call,
                f"softmax is over dim {dim} of {by(tuple(weights.shape))}, and {name} adds up over dim "
                f"{weights.ndim - 1}: the weights of one sum do not sum to 1",
                place,
            )


class Attends(Small):
    axis = 1

    def forward(self, inputs: Tensor) -> Tensor:
        keys = self.first(inputs).view(-1, 4, 4)
        return self.head((keys @ keys.mT).softmax(self.axis).matmul(keys).flatten(1))


class Pools(Attends):
    """Each of four tokens belongs to two clusters."""

    def __init__(self) -> None:
        super().__init__()
        self.assign = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.first(inputs).view(-1, 4, 4)
        shares = self.assign(tokens).mT.softmax(1)
        return self.head((shares @ tokens).repeat(1, 2, 1).flatten(1))


class AttendsToKeys(Attends):
    axis = 2


PROBE = Probe(
    question="Does the softmax of attention run over the keys, the axis that the product with the values sums over?",
    why="queries compete for a key instead of keys for a query: a position may get nothing, or know of later ones",
    severity=WARNING,
    fix=Fix("softmax(dim=-1) of scores that are multiplied with values: scores.softmax(-1) @ values"),
    listener=AttentionAxes,
    faulty=Attends,
    healthy=AttendsToKeys,
    also_healthy=(Pools,),
)
