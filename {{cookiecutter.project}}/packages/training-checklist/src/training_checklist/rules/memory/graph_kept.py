from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.evidence.memory_use import GraphNodes
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(nodes: GraphNodes, limits: Any) -> Iterator[Hit]:
    # Of what is in no attribute only two steps are looked at.
    enough = len(nodes.counts) >= (limits.min_growing_steps if "." in nodes.holder else 2)
    if enough and all(later > earlier for earlier, later in pairwise(nodes.counts)):
        first, last = nodes.counts[0], nodes.counts[-1]
        yield Hit(
            f"{nodes.holder} grows by one graph per step: from {first} to {last} nodes of autograd",
            Place(note=nodes.holder),
            fix=Fix(f"keep loss.item() or output.detach() in {nodes.holder.rpartition('.')[2]}, not the tensor itself"),
        )


RULE = Rule(
    id="memory/graph-kept",
    item="memory",
    question="Is every step's graph freed when the step is over?",
    why="a loss or output that is kept keeps its graph, and with it activations, until memory is full",
    severity=FAILED,
    evidence=GraphNodes,
    judge=judge,
    fix=Fix("keep numbers, not tensors with a graph"),
    thresholds={
        "min_growing_steps": Threshold(
            4, "steps in a row: a truncated history of up to three steps, as in recurrent training, is meant"
        )
    },
    faulty=lambda: GraphNodes("Classifier.history", [10, 20, 30, 40]),
    healthy=lambda: GraphNodes("Classifier.hidden", [10, 10, 10, 10]),
)
