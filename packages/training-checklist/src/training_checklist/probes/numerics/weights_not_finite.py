import math
import operator

import torch
from torch import nn

from training_checklist.instruments import Numbers, shown, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    step = numbers.forward
    if step.weights and step.eps is None:
        yield Hit(f"{step.seen}: weights are NaN or Inf already", Place(parameter=shown(step.weights)))


PROBE = Probe(
    item="overflow",
    question="Are all weights finite when the step begins?",
    why="they were made so before this step, by their initialisation, a checkpoint, or the step before",
    detect=detect,
    fix=Fix("in step 0 look at how they are initialised or loaded; later, at the step before", items=("gradients",)),
    faulty=with_part(lambda: nn.Parameter(torch.tensor(math.nan)), operator.add),
    healthy=with_part(lambda: nn.Parameter(torch.tensor(0.0)), operator.add),
)
