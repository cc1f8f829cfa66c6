from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import AcceleratorStep
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("numpy"):
        yield Hit(f"{mix.origin.name} is asked of a tensor of the accelerator", mix.used)


def beside(numpy: Callable[[Tensor], Any], answers: Tensor, labels: Tensor) -> Tensor:
    """Return a loss beside which something is counted with NumPy."""
    numpy(answers.detach()).argmax(1)
    return functional.cross_entropy(answers, labels)


PROBE = Probe(
    question="Are tensors copied to the CPU before NumPy gets them?",
    why="on an accelerator this line ends with an error: NumPy reads memory of the CPU only",
    detect=detect,
    fix=Fix("copy it first: tensor.detach().cpu().numpy()"),
    faulty=partial(beside, lambda answers: answers.numpy()),
    healthy=partial(beside, lambda answers: answers.cpu().numpy()),
)
