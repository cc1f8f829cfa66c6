from copy import deepcopy
from functools import partial
from typing import Any

from torch import nn
from torch.nn.functional import linear

from training_checklist.instruments import (
    Call,
    EpochListener,
    TwoEpochs,
    Validated,
    after_forward,
    digest_of,
    initialized,
    tensors,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


class FirstAnswers(EpochListener):
    """Keeps digests of the first batch of validation, by epoch.

    Attributes:
        answers: of what each outermost module with parameters has returned, by its path.
        batches: of the batch.
        weights: of all parameters.
        used: ids of the weights that train and that validation computes with.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.answers: list[dict[str, str]] = []
        self.batches: list[str] = []
        self.weights: list[str] = []
        self.is_first, self.used = False, set[int]()
        self.trained = {id(weight) for weight in run.pl_module.parameters() if weight.requires_grad}
        for path, module in run.pl_module.named_children():
            if any(True for _ in module.parameters()):
                self.watching.callback(after_forward(module, partial(self._keep, path)).remove)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self.is_first = batch_idx == dataloader_idx == 0
        if self.is_first:
            self.answers.append({})
            self.batches.append(digest_of(batch))
            self.weights.append(digest_of([weight.detach() for weight in initialized(pl_module.parameters())]))

    def on_validation_batch_end(self, *_: Any) -> None:
        self.is_first = False

    def after(self, call: Call) -> None:
        self.used |= self.trained & {id(each) for each in call.given}

    def _keep(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if self.is_first and any(True for _ in tensors(output)):
            self.answers[-1][path] = digest_of(output)  # of its last call in this batch


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen = run.heard()
    if len(seen.answers) < 2 or not all(seen.answers) or len(set(seen.batches)) > 1 or len(set(seen.weights)) < 2:
        raise CannotJudge("no module was seen to answer to one validation batch before and after further training")
    heard = {id(weight) for path in seen.answers[0] for weight in run.pl_module.get_submodule(path).parameters()}
    # A frozen network may be all that is called, where a method of another one, or its weight alone, does the rest.
    if seen.used <= heard and all(answers == seen.answers[0] for answers in seen.answers):
        names = ", ".join(seen.answers[0])
        yield Hit(
            f"{names} answers to the first validation batch with the very same numbers after another epoch, in which "
            f"weights have changed",
            Place(module=names, function="validation_step"),
        )


class Copied(Validated):
    """A network beside a copy of its first layer, which is validated."""

    follows = False

    def __init__(self) -> None:
        super().__init__()
        self.copy = deepcopy(self.first).requires_grad_(False)

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.copy(batch[0])

    def on_train_batch_end(self, *_: Any) -> None:
        if self.follows:
            self.copy.load_state_dict(self.first.state_dict())


class ByWeight(Copied):
    """Computes with a weight of its head, which it does not call."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        linear(self.copy(batch[0]), self.head.weight)


PROBE = Probe(
    question="Does the network that is validated change with training?",
    why="validation runs weights that training does not change: a copy, or an average that is never updated",
    listener=FirstAnswers,
    detect=detect,
    fix=Fix("validate the network that is trained, or look at what updates the other one"),
    faulty=Copied,
    healthy=type("Following", (Copied,), {"follows": True}),
    also_healthy=(ByWeight,),
)
