import ast
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from training_config.walk import value_of, walk

from training_checklist.instruments import (
    FirstSteps,
    Small,
    following,
    follows,
    is_ramped,
    own_config,
    several_steps,
    shown,
    source_tree,
    with_part,
)
from training_checklist.probe import REMARK, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    names, trained = steps.always(0), steps.holdings.trained
    if any(steps.equal_rows()):
        raise CannotJudge("units that begin equal may be why gradients are 0")
    if steps.steps < 2:
        raise CannotJudge("one step does not tell what is always so")
    # A bias alone may be followed by a norm, which takes it away.
    weights = [name for name in names if trained[name].ndim > 1 and trained[name].numel()]
    weights = [name for name in weights if not is_direction_of_numbers(name, trained)]
    death = steps.graph.kill(trained[name] for name in weights)
    if death is None:  # nothing that was seen made them 0: they may have been given nothing to work on
        return
    if follows_progress(death.place) or is_ramped(steps.pl_module, steps.trainer.callbacks):
        raise CannotJudge("a factor that depends on the epoch or step makes them 0, and may be another one later")
    behind = sum(id(trained[name]) in death.parameters for name in names)
    to = "" if behind == len(names) else f" to {behind} of them"
    what = (
        f"the gradients of {len(names)} of {len(steps.norms)} parameters are exactly 0 in all steps; backward of "
        f"{death.operation} is given one and passes on only zeros{to}"
    )
    place, key = death.place.beside(parameter=shown(names)), chosen_zero(death.place.source)
    if key:
        yield Hit(f"{what}, as {key}=0 of the config asks", place.beside(key=key), severity=REMARK)
    else:
        yield Hit(what, place)


def follows_progress(place: Place) -> bool:
    """Whether what stands in a line was computed from the epoch or step, as a term that is ramped up."""
    functions = [node for node in ast.walk(source_tree(place.file)) if isinstance(node, ast.FunctionDef)]
    around = [each for each in functions if each.lineno <= place.line <= (each.end_lineno or 0)]
    if not around:
        return False
    function = max(around, key=lambda each: each.lineno)
    found, nodes = following(function), ast.walk(function)
    return any(getattr(node, "lineno", 0) == place.line and follows(node, found) for node in nodes)


def is_direction_of_numbers(name: str, trained: Mapping[str, Tensor]) -> bool:
    """Whether a parameter is what `weight_norm` divides by its length, and each length is that of a single number."""
    length = re.sub(r"original1$", "original0", re.sub(r"_v$", "_g", name))
    return length != name and length in trained and trained[length].numel() == trained[name].numel()


def chosen_zero(line: str) -> str:
    """Return the key of the config that is 0 and that a line of code names, as the weight of a term that is off."""
    config = own_config()
    for key, node, name in walk(config) if config is not None else ():
        value = None if key.startswith("hydra.") else value_of(node, name)
        is_zero = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
        is_named = isinstance(name, str)  # as an item of a list is not
        if is_zero and is_named and re.search(rf"\b{re.escape(name)}\b", line):
            return key
    return ""


class Scaled(Small):
    factor = 0.0

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return self.factor * super().loss(answers, labels)


class Rescaled(Small):
    """Its answers are multiplied by one number each, under weight_norm: its sign alone is left of such a direction."""

    def __init__(self) -> None:
        super().__init__()
        scale = nn.Linear(1, 4, bias=False)
        self.scale = nn.utils.parametrizations.weight_norm(scale)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * self.scale.weight[:, 0]


PROBE = Probe(
    question="Does every weight get a gradient other than 0 in at least one step?",
    why="a factor 0, a ReLU that is 0 for every sample, a function without a slope (sign, round, clamp), an input of "
    "zeros: the weights behind it stay as they are",
    fix=Fix("it shows what goes in and out of each module", items=("trace",)),
    detect=detect,
    faulty=several_steps(Scaled),
    healthy=several_steps(type("Weighted", (Scaled,), {"factor": 0.1})),
    also_healthy=(
        several_steps(Rescaled),
        several_steps(with_part(lambda: nn.Parameter(torch.zeros(4)), lambda bias, answers: answers + 0 * bias)),
    ),
)
