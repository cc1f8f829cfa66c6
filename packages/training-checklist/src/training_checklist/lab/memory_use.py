"""What a training takes of memory."""

from collections import Counter
from itertools import pairwise
from typing import Any
from weakref import ref

from torch import Tensor

from training_checklist.engines.held import NOWHERE, holder, with_graph
from training_checklist.engines.sizes import GIB
from training_checklist.lab.shared import Subject
from training_checklist.lightning import LightningModule, Trainer


class MemoryUse(Subject):
    """What is known of memory before the first step, and what two short epochs keep.

    Args:
        budget_gb: what the accelerator has, in GiB.
        assumed: whether nobody has said what it has, and this machine has none.
        overhead_gb: of it that is not predicted: the device's context, workspaces of kernels, fragmentation.

    Attributes:
        validated: names of modules whose output had a graph in the last validation.
        asked: whether a gradient came to an output of any module in it.
        graphs: how many of autograd's nodes each place keeps alive after each step.
        graph_sizes: nodes of the graph of each step.
        keeper: who keeps most of the graphs that are in no attribute; metrics are empty when an epoch is over.
        before: tensors with a graph that other runs of this process have left.
        kept: bytes of tensors that each place keeps, before each epoch and after the last one.
        leaking: places that keep a graph.
        facts: for the report.
        said: for its line, in words.
    """

    pl_module: LightningModule
    trainer: Trainer
    validated: list[str]
    asked: bool
    graphs: list[Counter[str]]
    graph_sizes: list[int]
    keeper: str
    before: list[ref[Tensor]]
    kept: list[Counter[str]]

    def __init__(self, budget_gb: float, assumed: bool, overhead_gb: float, facts: dict[str, Any]) -> None:
        self.budget_gb, self.assumed, self.overhead_gb = budget_gb, assumed, overhead_gb
        self.room = (budget_gb - overhead_gb) * GIB
        self.facts, self.said, self.leaking = facts, [], set()

    def note_keeper(self) -> None:
        known = {id(each) for reference in self.before if (each := reference()) is not None}
        if rises([count[NOWHERE] for count in self.graphs if NOWHERE in count]):
            self.keeper = holder([each for each in with_graph() if id(each) not in known])


def rises(counts: list[int], least: int = 2) -> bool:
    """Whether each of some counts is larger than the one before, and there are at least so many."""
    return len(counts) >= least and all(later > earlier for earlier, later in pairwise(counts))
