"""Modules that are frozen, and what the mode of training makes of them in training steps."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from training_checklist.engines.around_step import around_step
from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.uncopied import before_forward
from training_checklist.lab.epochs import EpochListener
from training_checklist.lab.layer_modes import WITH_DROPOUT, Inside, dropout_share, is_untouched
from training_checklist.lab.two_epochs import TwoEpochs


class FrozenModules(EpochListener):
    """Sees which BatchNorms and layers with dropout run in training mode inside of modules that are frozen."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.modules = dict(frozen(run.pl_module))
        self.weights: dict[str, str] = {}  # by the path of a module, what its parameters were at first
        self.statistics: dict[str, tuple[str, _BatchNorm, str]] = {}  # by the path of a norm: in which module, and what
        self.new: set[str] = set()  # paths of norms that began with the statistics that they were made with
        self.drawing: dict[str, str] = {}  # by the path of a layer with dropout: in which module
        in_step = Inside()
        self.watching.enter_context(around_step(run.pl_module, in_step))
        for root, module in self.modules.items():
            for path, part in module.named_modules(prefix=root):
                if isinstance(part, (_BatchNorm, *WITH_DROPOUT)):
                    look = partial(self.safely, self._look, in_step, root, path)
                    self.watching.callback(before_forward(part, look).remove)

    def _look(self, in_step: Inside, root: str, path: str, part: nn.Module, inputs: Any) -> None:
        known = path in self.statistics or path in self.drawing or path in self.new
        if not in_step.entered or not part.training or known:
            return
        if not isinstance(part, _BatchNorm):
            if dropout_share(part):
                self.drawing[path] = root
        elif part.track_running_stats and part.running_mean is not None:
            if is_untouched(part):  # those of a network that is new are yet to be found
                self.new.add(path)
                return
            self.statistics[path] = root, part, digest_of(part.running_mean)
        self.weights.setdefault(root, digest_of([*self.modules[root].parameters()]))

    def of_frozen(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield the path of each frozen module that runs so, the norms whose statistics moved, and the dropouts.

        What has changed meanwhile is none: an average of weights follows a network that trains.
        """
        still = dict(frozen(self.run.pl_module))
        for root, before in self.weights.items():
            if root in still and digest_of([*still[root].parameters()]) == before:
                moved = [
                    path
                    for path, (around, norm, known) in self.statistics.items()
                    if around == root and digest_of(norm.running_mean) != known
                ]
                yield root, moved, [path for path, around in self.drawing.items() if around == root]


def frozen(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the outermost modules with parameters of which none asks for a gradient."""
    found: list[str] = []
    for path, module in root.named_modules():
        parameters = [*module.parameters()]
        is_inside = path.startswith(tuple(f"{each}." for each in found))
        if path and parameters and not is_inside and not any(parameter.requires_grad for parameter in parameters):
            found.append(path)
            yield path, module
