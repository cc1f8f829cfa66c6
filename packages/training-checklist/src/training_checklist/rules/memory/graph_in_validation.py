from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.memory_use import ValidationGraphs
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(graphs: ValidationGraphs, limits: Any) -> Iterator[Hit]:
    if graphs.modules:
        first = graphs.modules[0]
        what = f"validation builds a graph: the output of {first} requires gradients, and nothing asks for them"
        yield Hit(what, graphs.place.beside(module=first))


RULE = Rule(
    id="memory/graph-in-validation",
    item="memory",
    question="Does validation go without a graph?",
    why="all activations stay until the batch ends, or as long as anything of it is kept",
    severity=WARNING,
    evidence=ValidationGraphs,
    judge=judge,
    fix=Fix("leave out torch.enable_grad() and set_grad_enabled(True) there, and keep trainer.inference_mode=true"),
    faulty=lambda: ValidationGraphs(["net (CNN)"]),
    healthy=lambda: ValidationGraphs(),
)
