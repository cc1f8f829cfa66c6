import math

from torch.nn import functional

from training_checklist.instruments import Stages, of_function
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(stages: Stages, limits: Limits) -> Hits:
    if stages.first_loss is not None and not math.isfinite(stages.first_loss):
        place = of_function(type(stages.pl_module).training_step)
        yield Hit(f"the first loss is {stages.first_loss}", place.beside(batch=0))


PROBE = Probe(
    question="Is the loss of the first training batch a finite number?",
    why="every weight becomes NaN with the first step of the optimizer",
    fix=Fix("the first looks at the data, the second at the network", items=("limit_batches", "overflow")),
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(answers.log(), labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers.exp(), labels),
    symptom=True,
)
