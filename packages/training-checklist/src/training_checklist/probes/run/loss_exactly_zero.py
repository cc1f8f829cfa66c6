import ast
import re
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Small, Stages, of_function, reached, tree_of
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

OF_NOTHING = re.compile(r"\b(tensor|zeros|new_zeros)\(")


def detect(stages: Stages, limits: Limits) -> Hits:
    if stages.first_loss == 0 and not may_be_of_nothing(stages.pl_module):
        yield Hit("the first loss is exactly 0", of_function(type(stages.pl_module).training_step).beside(batch=0))


def may_be_of_nothing(pl_module: Any) -> bool:
    """Whether a step returns a constant under some condition, as while a buffer is filled."""
    for function in reached(pl_module, "training_step"):
        under = [node for each in ast.walk(tree_of(function)) if isinstance(each, ast.If) for node in ast.walk(each)]
        if any(isinstance(each, ast.Return) and OF_NOTHING.search(ast.unparse(each)) for each in under):
            return True
    return False


class Filling(Small):
    seen = 0

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        self.seen += len(batch[1])
        if self.seen < 100:
            return torch.tensor(0.0, requires_grad=True)
        return super().training_step(batch, batch_idx)


PROBE = Probe(
    question="Is the loss of the first training batch different from exactly 0?",
    why="an untrained network cannot be right: the loss is detached from labels or outputs, or multiplied by 0",
    fix=Fix(items=("gradients",)),
    detect=detect,
    faulty=lambda answers, labels: 0.0 * functional.cross_entropy(answers, labels),
    healthy=lambda answers, labels: 1e-6 * functional.cross_entropy(answers, labels),
    also_healthy=(Filling,),
)
