from torch import nn

from training_checklist.instruments import FirstSteps, Small, several_steps, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    zero = steps.always(0)
    still, filled = steps.equal_rows()
    names = list(dict.fromkeys([*still, *filled]))
    if names:
        after = f", and still after {steps.steps} steps" if still else ""
        zeros = f"; the gradients of {len(zero)} of {len(steps.norms)} parameters are exactly 0" if zero else ""
        yield Hit(f"all rows of {shown(names)} are equal at the start{after}{zeros}", Place(parameter=shown(names)))


class Constant(Small):
    layer, value = "first", 0.1

    def __init__(self) -> None:
        super().__init__()
        nn.init.constant_(self.get_submodule(self.layer).weight, self.value)


PROBE = Probe(
    question="Are the units of each layer initialised with different weights?",
    why="units that start equal get equal gradients: the layer has one unit, however wide it is",
    fix=Fix("initialise at random (nn.init.kaiming_normal_, xavier_uniform_); a constant is for biases and norms"),
    detect=detect,
    faulty=several_steps(Constant),
    healthy=several_steps(type("ZeroHead", (Constant,), {"layer": "head", "value": 0.0})),
    also_healthy=(several_steps(type("Means", (Constant,), {"layer": "head", "value": 1 / 32})),),
)
