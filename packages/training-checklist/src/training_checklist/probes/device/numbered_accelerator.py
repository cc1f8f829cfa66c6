from torch.nn import functional

from training_checklist.instruments import AcceleratorStep
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("numbered"):
        yield Hit(f"{mix.operation} puts a tensor on {mix.origin.name}, and the step is on cuda:0", mix.used)


PROBE = Probe(
    question='Is the device taken from a tensor or the module, and not written as a number such as "cuda:1"?',
    why="the accelerator is named by its number: elsewhere there is none of it, or it is another process's",
    detect=detect,
    fix=Fix("device=x.device, x being an input of the module"),
    faulty=lambda answers, labels: functional.cross_entropy(answers.to("cuda:1" if answers.is_cuda else "cpu"), labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers.to(labels.device), labels),
)
