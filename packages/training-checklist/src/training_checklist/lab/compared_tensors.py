"""Tensors of a batch that the loss depends on and that no layer sees: targets, masks, weights."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from training_checklist.engines.batches import leaves
from training_checklist.engines.compared import SAMPLES, first_of
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.shapes import by
from training_checklist.lab.shared import once
from training_checklist.lab.step import Step, look
from training_checklist.lightning import isolate_rng
from training_checklist.probe import CannotJudge

PICKS = {"getitem", "index", "index_select"}
SCALES = {"mul", "rmul", "imul", "multiply", "div", "truediv", "rtruediv", "itruediv", "divide", "true_divide"}
SUBTRACTS = {"sub", "rsub", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss"}


@dataclass
class ComparedTensor:
    """One such tensor.

    Args:
        leaf: place in the batch.
        belongs: whether the loss is another one where its entries belong to other samples.
        meeting: the operation in which it meets what the network answers: "sub of 64x1x7 with 64x7".
        place: of that operation, or of `training_step`.
    """

    leaf: str
    belongs: bool = True
    meeting: str = ""
    place: Place = NOWHERE

    @property
    def where(self) -> Place:
        return self.place.beside(loader="train_dataloader", note=self.leaf)


@once
def compared_tensors(step: Step) -> list[ComparedTensor]:
    """Return what the loss of a batch compares with.

    Raises:
        CannotJudge: it compares with nothing, or that cannot be told.
    """
    looked = look(step, training=True)
    found = []
    for path, _, belongs in looked.only_compared(first_of(step.batch, SAMPLES)):
        meeting = Meeting(leaves(step.batch)[path])
        with isolate_rng(), torch.enable_grad(), Tracer(looked.module, meeting):
            looked.loss_of(step.batch)
        belongs |= meeting.is_entrywise
        if belongs or not (meeting.only_told_apart or meeting.enters or meeting.picks_pairs or meeting.is_factor):
            found.append(ComparedTensor(path, belongs, meeting.told, meeting.place or step.place))
    if not found:
        raise CannotJudge("no tensor of the batch is seen by the loss alone, or the loss is random")
    return found


class Meeting(Listener):
    """Finds the first operation in which a tensor of the batch meets what was computed from weights.

    Attributes:
        enters: whether it meets a weight, as a layer's input: samples that are matched with others may stand anywhere.
        picks_pairs: whether it is a list of pairs, (2, N) or (N, 2), by whose indices answers are picked, as the ends
            of edges are: its order says nothing.
        is_factor: whether a single number of all its entries scales the loss, as the number of tokens does.
        only_told_apart: whether its entries were compared with each other before, as the indices of samples are.
        is_entrywise: whether each entry is subtracted from an answer to its own sample: where all targets are above
            all answers, an absolute error is the same whoever belongs to whom, for as long as that lasts.
    """

    def __init__(self, leaf: Tensor) -> None:
        self.made = {id(leaf): leaf}  # what was made of it alone; held, lest another gets its id
        self.told = ""
        self.enters = self.picks_pairs = self.is_factor = self.only_told_apart = self.is_entrywise = False
        self.is_pairs = leaf.ndim == 2 and 2 in leaf.shape and not leaf.is_floating_point()
        self.place: Place | None = None

    def after(self, call: Call) -> None:
        if self.place is not None or not any(id(tensor) in self.made for tensor in call.given):
            return
        if any(tensor.requires_grad for tensor in call.given):
            self.place = call.place
            self.enters = any(isinstance(each, nn.Parameter) for each in call.given)
            self.picks_pairs = self.is_pairs and call.name.strip("_") in PICKS
            own = [tensor for tensor in call.given if id(tensor) in self.made]
            self.is_factor = call.name.strip("_") in SCALES and all(tensor.numel() == 1 for tensor in own)
            shapes = {each.shape for each in call.given}
            differ = all(not torch.equal(each, each.roll(1, 0)) for each in call.given if each.ndim)
            self.is_entrywise = call.name.strip("_") in SUBTRACTS and len(shapes) == 1 and differ
            self.told = f"{call.name.strip('_')} of {' with '.join(by(tuple(each.shape)) for each in call.given)}"
        else:
            self.made |= {id(tensor): tensor for tensor in call.made}
            own = [tensor for tensor in call.given if id(tensor) in self.made]
            self.only_told_apart |= call.name.strip("_") in ("eq", "ne") and len(own) > 1
