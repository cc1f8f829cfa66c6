import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from training_checklist.instruments import EpochListener, TwoEpochs, Validated, is_own_class, of_function, shown
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

LOGS = {"log", "log_dict"}
ADDS = re.compile(r"self\.(\w+)\s*\+=|self\.(\w+)\.(?:append|extend|add_)\(|self\.(\w+) = self\.\3 \+")
ENDS = ("on_validation_epoch_end", "on_validation_end")


class Sums(EpochListener):
    """Keeps numbers, and lengths of lists, that the module has among its attributes in each epoch of validation.

    Attributes:
        epochs: what they were before its first batch and after its last one, and how many batches there were.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.epochs: list[tuple[dict[str, float], dict[str, float], int]] = []

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == dataloader_idx == 0:
            self.epochs.append((sizes(pl_module), {}, 0))

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        begun, _, batches = self.epochs[-1]
        self.epochs[-1] = begun, sizes(pl_module), batches + 1


def sizes(module: nn.Module) -> dict[str, float]:
    """Return the numbers of a module's own attributes, and the lengths of its lists, by name."""
    found = {}
    buffers = [each for each in module.named_buffers(recurse=False) if not is_lazy(each[1])]
    for name, value in (*vars(module).items(), *buffers):
        if isinstance(value, list):
            found[name] = float(len(value))
        elif isinstance(value, (int, float)) or (
            isinstance(value, Tensor) and value.shape == () and not value.is_complex()
        ):
            found[name] = float(value)
    return found


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    epochs = run.heard().epochs[-2:]
    if len(epochs) < 2:
        raise CannotJudge("there were no two epochs of validation")
    (begun, ended, batches), (again, last, _) = epochs
    added = added_to(type(run.pl_module))
    for function in ending_hooks(type(run.pl_module)):
        kept = []
        for name in sorted(ended.keys() & added & {*function.__code__.co_names}):
            is_list = isinstance(getattr(run.pl_module, name), list)
            grown = ended[name] - begun.get(name, 0.0)
            goes_on = again.get(name) == ended[name] and last[name] > ended[name]
            # What grows by one a batch numbers the batches, unless it is a list.
            if grown > 0 and goes_on and (is_list or grown != batches):
                kept.append(f"self.{name} {'holds' if is_list else 'is'} {ended[name]:g}")
        if kept:
            what = f"{shown(kept)} when an epoch of validation begins, as the one before has left it"
            yield Hit(f"{what}, and its batches add to it", of_function(function))


def added_to(kind: type) -> set[str]:
    """Return the attributes of self that code of a class adds to, and does not only assign."""
    parts = [part for each in kind.__mro__ if is_own_class(each) for part in vars(each).values()]
    found = set()
    for function in parts:
        if isinstance(function, FunctionType):
            with suppress(OSError, TypeError):  # made by exec
                found.update(*ADDS.findall(inspect.getsource(function)))
    return found


def ending_hooks(kind: type) -> Iterator[FunctionType]:
    """Yield the functions of a class of the project in which an epoch of validation ends, if they log anything."""
    waiting, found = list(ENDS), {}
    while waiting:
        name = waiting.pop()
        owner = next((each for each in kind.__mro__ if name in vars(each)), object)
        function = vars(owner).get(name)
        if is_own_class(owner) and isinstance(function, FunctionType) and name not in found:
            found[name] = function
            waiting += function.__code__.co_names
    if any(not LOGS.isdisjoint(each.__code__.co_names) for each in found.values()):
        yield from found.values()


class Summed(Validated):
    resets = False

    def __init__(self) -> None:
        super().__init__()
        self.right = self.seen = self.batches = 0

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.right += int((self(batch[0]).argmax(1) == batch[1]).sum())
        self.seen += len(batch[1])
        self.batches += 1

    def on_validation_epoch_end(self) -> None:
        self.log("val/accuracy", self.right / self.seen)
        self.log("val/batches", float(self.batches))
        if self.resets:
            self.right = self.seen = 0


class Listed(Validated):
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[Tensor] = []

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.losses.append(self.loss(self(batch[0]), batch[1]))

    def on_validation_epoch_end(self) -> None:
        self.log("val/loss", sum(self.losses) / len(self.losses))


class Latest(Validated):
    """Logs what the last batch has left: nothing is added up."""

    latest = 0.0

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.latest = self.trainer.global_step + batch_idx

    def on_validation_epoch_end(self) -> None:
        self.log("val/latest", self.latest)


PROBE = Probe(
    question="Is what a module adds up over an epoch of validation set back before the next one?",
    why="what is logged of it mixes epochs: it changes less with each, and the best epoch cannot be told",
    listener=Sums,
    detect=detect,
    fix=Fix(
        "set it back in on_validation_epoch_start; self.log(..., on_epoch=True) and torchmetrics do that themselves"
    ),
    faulty=Summed,
    also_faulty=(Listed,),
    healthy=type("Reset", (Summed,), {"resets": True}),
    also_healthy=(Latest,),
)
