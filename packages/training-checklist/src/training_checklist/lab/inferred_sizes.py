"""By which sizes Lightning weights the batches of a logged value, where a step does not tell it how many samples."""

import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.utils.data import DataLoader
from torchmetrics import Metric, MetricCollection

from training_checklist.engines.batches import tensors
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import Places
from training_checklist.engines.splits import splits
from training_checklist.engines.uncopied import after_forward
from training_checklist.finding import Place
from training_checklist.lightning import LightningModule, part


@dataclass
class InferredSizes:
    """How many samples Lightning takes full batches of validation for.

    Args:
        names: of what is logged without batch_size=, with the place.
        inferred: the sizes, of each batch.
        samples: that they have.
        answered: first dimensions of what the module returns, or its outermost parts where a step calls only these.
    """

    names: dict[str, Place] = field(default_factory=dict)
    inferred: list[int] = field(default_factory=list)
    samples: int = 0
    answered: set[int] = field(default_factory=set)


class SizesOf:
    """Watches validation steps while it is entered."""

    def __init__(self, pl_module: LightningModule) -> None:
        self.module = pl_module
        self.found = InferredSizes()
        self.within = False
        self.whole = False  # whether the module's own forward is called
        self.watching = ExitStack()

    def __enter__(self) -> "SizesOf":
        inner = self.module.log

        def log(name: str, value: Any, *arguments: Any, **options: Any) -> None:
            mean = options.get("reduce_fx", "mean") == "mean" and not isinstance(value, Metric)
            if self.within and mean and options.get("batch_size") is None and options.get("on_epoch", True):
                self.found.names.setdefault(name, Places(self.module).here())
            pass_on(inner, name, value, *arguments, **options)

        put(self.module, "log", log)
        self.watching.callback(vars(self.module).pop, "log", None)
        metrics = Metric, MetricCollection  # which a project may copy, and hooks with them
        for module in (self.module, *(each for each in self.module.children() if not isinstance(each, metrics))):
            self.watching.callback(after_forward(module, self._keep).remove)
        return self

    def __exit__(self, *error: object) -> None:
        self.watching.close()

    def begin(self, loader: Any, batch: Any, batch_idx: int) -> None:
        """Say which batch comes; only of full ones it is known how many samples they have."""
        known = all(split.indexable for split in splits("val", loader))  # a stream has no end that is known
        full = isinstance(loader, DataLoader) and known and loader.batch_size is not None
        self.within = full = full and batch_idx + 1 < len(loader)
        if full:
            with warnings.catch_warnings(action="ignore"):
                self.found.inferred.append(part("utilities.data").extract_batch_size(batch))
            self.found.samples = loader.batch_size

    def end(self) -> None:
        self.within = False

    def _keep(self, module: nn.Module, given: Any, answer: Any) -> None:
        sizes = {len(each) for each in tensors(answer) if each.ndim}
        if self.within and module is self.module:  # whatever its parts return on the way
            self.found.answered, self.whole = sizes | (self.found.answered if self.whole else set()), True
        elif self.within and not self.whole:
            self.found.answered |= sizes
