from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from training_checklist.instruments import NOWHERE, Example, MemoryUse, Small, loader, rises
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(use: MemoryUse, limits: Limits) -> Hits:
    counts = use.graphs[1:]  # the first step may build what stays
    for place in max(counts, key=len, default={}):
        nodes = [count[place] for count in counts]
        if place != NOWHERE and rises(nodes) and len(nodes) >= limits.min_growing_steps:
            yield kept(use, place, nodes)
    alive = [count[NOWHERE] for count in counts if NOWHERE in count]
    if use.leaking or not rises(alive):  # what an attribute keeps is alive anywhere, too
        return
    # What is alive may change with the length of a sequence; a kept graph is as large as a step's.
    if alive[-1] - alive[0] >= limits.min_kept_graph * min(use.graph_sizes, default=0) > 0:
        yield kept(use, use.keeper, alive)


def kept(use: MemoryUse, place: str, nodes: list[int]) -> Hit:
    use.leaking.add(place)
    return Hit(
        f"{place} grows by one graph per step: from {nodes[0]} to {nodes[-1]} nodes of autograd",
        Place(note=place),
        fix=Fix(f"keep loss.item() or output.detach() in {place.rpartition('.')[2]}, not the tensor itself"),
    )


def keeping(part: Callable[[Small, list, Tensor], Any], by_name: bool = True, **trainer: Any) -> Example:
    """Keep something of each step, in an attribute or in a variable outside of the model."""

    def module() -> Small:
        kept: list[Any] = []

        class Keeping(Small):
            def training_step(self, batch: list, batch_idx: int) -> Tensor:
                loss = super().training_step(batch, batch_idx)
                kept.append(part(self, batch, loss))
                return loss

        made = Keeping()
        made.history = kept if by_name else None
        return made

    return Example(module, partial(loader, 4), trainer=trainer)


PROBE = Probe(
    question="Is the autograd graph of each training step freed when the step is over?",
    why="a loss or output that is kept keeps its graph as long, and the activations with it unless a backward pass has "
    "freed them: each step adds its own",
    fix=Fix("keep numbers, not tensors with a graph"),
    detect=detect,
    thresholds={
        "min_growing_steps": Threshold(
            4,
            "steps in a row: a truncated history of up to three steps, as in recurrent training, is meant",
            healthy=keeping(lambda module, batch, loss: loss, limit_train_batches=4, max_epochs=1),
        ),
        "min_kept_graph": Threshold(
            0.5,
            "of a step's own graph, between two looks, steps apart: weights are shared by all graphs, and other "
            "lengths of sequences changed 10 of 1,150 nodes (temporal fusion transformer)",
            faulty=keeping(lambda module, batch, loss: module.first(batch[0]).relu(), by_name=False),
            healthy=keeping(lambda module, batch, loss: 2 * module.head.bias, by_name=False),
        ),
    },
    faulty=keeping(lambda module, batch, loss: loss),
    healthy=keeping(lambda module, batch, loss: float(loss)),
)
