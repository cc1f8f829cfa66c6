from torch.nn import functional

from training_checklist.instruments import Stages, of_function
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(stages: Stages, limits: Limits) -> Hits:
    if stages.first_loss == 0:
        yield Hit("the first loss is exactly 0", of_function(type(stages.pl_module).training_step).beside(batch=0))


PROBE = Probe(
    question="Is the loss of the first training batch different from exactly 0?",
    why="an untrained network cannot be right: the loss is detached from labels or outputs, or multiplied by 0",
    fix=Fix(items=("gradients",)),
    detect=detect,
    faulty=lambda answers, labels: 0.0 * functional.cross_entropy(answers, labels),
    healthy=lambda answers, labels: 1e-6 * functional.cross_entropy(answers, labels),
)
