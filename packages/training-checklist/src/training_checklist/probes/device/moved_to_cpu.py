from torch.nn import functional

from training_checklist.instruments import WHY, AcceleratorStep
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("moved"):
        yield mix.hit("a tensor was moved to the CPU")


PROBE = Probe(
    question="Do the tensors of a step stay on its device, and is none moved to the CPU and then used with the others?",
    why=WHY,
    detect=detect,
    fix=Fix("leave that out, or move it back with .to(x.device)"),
    faulty=lambda answers, labels: functional.cross_entropy(answers.cpu(), labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers.to(labels.device), labels),
)
