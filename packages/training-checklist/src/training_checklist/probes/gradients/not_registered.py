from torch import Tensor, nn

from training_checklist.instruments import FirstSteps, Small, several_steps, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = steps.after_first.known.union(*steps.after_first.held)
    leaves = {node.variable: place for node, place in steps.graph.places.items() if hasattr(node, "variable")}
    unknown = {p: place for p, place in leaves.items() if isinstance(p, nn.Parameter) and id(p) not in known}
    measures = {id(p) for part in steps.pl_module.modules() for each in hidden(part) for p in each.parameters()}
    unknown = {p: place for p, place in unknown.items() if id(p) not in measures}
    for place in dict.fromkeys(unknown.values()):
        shapes = [tuple(p.shape) for p, where in unknown.items() if where == place]
        yield Hit(f"parameters that belong to no module of the model are trained through: {shown(shapes)}", place)


def hidden(part: nn.Module) -> list[nn.Module]:
    """Return the modules in eval mode that lie in a plain list: networks to measure by, in no checkpoint."""
    lists = [each for each in vars(part).values() if isinstance(each, (list, tuple))]
    return [each for some in lists for each in some if isinstance(each, nn.Module) and not each.training]


class Listed(Small):
    kind: type = list

    def __init__(self) -> None:
        super().__init__()
        self.layers = self.kind([nn.Linear(4, 4)])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers[0](super().forward(inputs))


class Measured(Small):
    """Compares what a network that is kept out of checkpoints makes of its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.measures = [nn.Linear(4, 4).eval()]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.measures[0](super().forward(inputs))


PROBE = Probe(
    question="Is every tensor that is trained a parameter of a registered module?",
    why="no optimizer holds them, no checkpoint has them, and they stay on the CPU",
    fix=Fix("assign their module to an attribute, or keep it in nn.ModuleList or nn.ModuleDict"),
    detect=detect,
    faulty=several_steps(Listed),
    healthy=several_steps(type("InModuleList", (Listed,), {"kind": nn.ModuleList})),
    also_healthy=(several_steps(Measured),),
)
