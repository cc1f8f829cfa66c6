from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.evidence.memory_use import GraphNodes
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(nodes: GraphNodes, limits: Any) -> Iterator[Hit]:
    counts = nodes.counts
    rises = len(counts) > 1 and all(later > earlier for earlier, later in pairwise(counts))
    if nodes.anywhere:
        # What is alive may change with the length of a sequence; a kept graph is as large as a step's.
        kept = rises and counts[-1] - counts[0] >= limits.min_kept_graph * nodes.of_a_step > 0
    else:
        kept = rises and len(counts) >= limits.min_growing_steps
    if kept:
        yield Hit(
            f"{nodes.holder} grows by one graph per step: from {counts[0]} to {counts[-1]} nodes of autograd",
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
        ),
        "min_kept_graph": Threshold(
            0.5,
            "of a step's own graph, between two looks, steps apart: weights are shared by all graphs, and other "
            "lengths of sequences changed 10 of 1,150 nodes (temporal fusion transformer)",
        ),
    },
    faulty=lambda: GraphNodes("Classifier.history", [10, 20, 30, 40]),
    healthy=lambda: GraphNodes("Classifier.hidden", [10, 10, 10, 10]),
)
