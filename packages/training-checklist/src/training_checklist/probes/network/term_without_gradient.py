import re
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Call, Step, StepListener, walk
from training_checklist.probe import WARNING, Fix, Probe

ADDS = {"add", "radd", "iadd", "sub", "rsub", "isub", "sum"}
CUTS = {"detach", "detach_", "__get__"}  # the last one is `.data`
FORM = re.compile("new_|.*_like$")  # tensors that have nothing but their shape and type of the one that is given


class DeadTerms(StepListener):
    """Follows what is computed from answers without their gradient, until one number of it is added to one with it.

    detach() takes the gradient, argmax and comparisons have none, and torch.no_grad() lets no operation have one.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.cut: WeakValueDictionary[int, Tensor] = WeakValueDictionary()  # by id
        self.terms: dict[Any, tuple[Call, str]] = {}  # by the node of the sum

    def after(self, call: Call) -> None:
        given = call.given
        cut = [tensor for tensor in given if self.cut.get(id(tensor)) is tensor]
        if call.name.strip("_") in ADDS and cut and call.name not in CUTS:
            self._compare(call, given, cut)
        learns = any(tensor.requires_grad for tensor in given)
        ends_graph = any(tensor.grad_fn is not None for tensor in given) and FORM.match(call.name) is None
        starts = ends_graph or (call.name in CUTS and learns)
        if starts or (cut and not learns):
            self.cut.update((id(made), made) for made in call.made if not made.requires_grad)

    def _compare(self, call: Call, given: list[Tensor], cut: list[Tensor]) -> None:
        learning = [tensor for tensor in given if tensor.requires_grad and tensor.ndim == 0]
        term = next((tensor for tensor in cut if tensor.ndim == 0 and not tensor.requires_grad), None)
        # What a library adds up, such as times, is no loss.
        if learning and term is not None and float(term) != 0 and call.is_own:
            value = f"a term of the loss, {float(term):.4g} in this step,"
            self.terms[call.result.grad_fn] = call, f"{value} is computed from answers without their gradient"

    def before_backward(self, loss: Tensor) -> None:
        for node in walk([loss.grad_fn]):
            if node in self.terms:  # and not a sum that is only logged
                self.keep(*self.terms[node])


def logged(answers: Tensor, labels: Tensor) -> Tensor:
    loss, size = functional.cross_entropy(answers, labels), torch.norm(answers)
    (loss.detach() + size).item()
    return loss + 0.1 * size


PROBE = Probe(
    question="Does every term that is added to the loss have a gradient?",
    why="it changes the loss that is logged and no weight: its factor, whatever it is, does nothing",
    severity=WARNING,
    may_be_wrong="a constant of the likelihood moves the loss that is logged, and needs no gradient",
    fix=Fix(
        "compute it from the answers themselves, without detach(), .data, .item(), argmax, a comparison or "
        "torch.no_grad() on the way"
    ),
    listener=DeadTerms,
    faulty=lambda answers, labels: functional.cross_entropy(answers, labels) + 0.1 * torch.norm(answers.detach()),
    healthy=lambda answers, labels: functional.cross_entropy(answers, labels) + 0.1 * torch.norm(answers),
    also_healthy=(logged,),
)
