"""Does training fit into memory, and does it stay there?"""

import gc
from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from training_checklist.engines.batches import tensors
from training_checklist.engines.held import count_nodes, graph_nodes, plain_bytes, with_graph
from training_checklist.engines.places import named
from training_checklist.engines.sizes import GIB
from training_checklist.engines.uncopied import after_forward
from training_checklist.experiments.experiment import Experiment, end, stop
from training_checklist.lab.memory_use import MemoryUse
from training_checklist.lightning import Callback, LightningModule, Trainer


class Memory(Experiment):
    """A prediction of the peak of one step, and two short epochs in which what is kept is counted.

    Args:
        budget_gb: what the accelerator has, in GiB; None: that of this machine's own, else `small_gb`.
        small_gb: see there.
        overhead_gb: what the prediction leaves out: the device's context, workspaces of kernels, fragmentation.
        steps: of training after which is counted what is kept.
    """

    item = "memory"

    def __init__(
        self, topics: Sequence[str], budget_gb: float | None, small_gb: float, overhead_gb: float, steps: int
    ) -> None:
        super().__init__(topics)
        has_own = budget_gb is None and torch.cuda.is_available()
        own = torch.cuda.get_device_properties(0).total_memory / GIB if has_own else small_gb
        assumed = budget_gb is None and not has_own
        self.use = MemoryUse(own if budget_gb is None else budget_gb, assumed, overhead_gb, self.facts)
        self.steps, self.is_looking, self.is_given_up = steps, False, False
        self.hooks: list[RemovableHandle] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.ask(self.probes, self.use, trainer=trainer, pl_module=pl_module)
        if self.has_found():  # and a step may not fit here either
            self.is_given_up = True
            stop(trainer)

    def after_fit(self, trainer: Trainer) -> None:
        if self.is_given_up:  # no step was taken, and no checkpoint is there
            end()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        use = self.use
        if not self.is_looking:
            self.is_looking, use.validated, use.graphs, use.graph_sizes, use.kept = True, [], [], [], []
            use.before = [ref(each) for each in with_graph()]
            gc.freeze()  # what is there already: each later look at every object is quick then
        use.kept.append(plain_bytes(pl_module, own_callbacks(trainer)))

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        gc.unfreeze()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self.use.graph_sizes.append(count_nodes([loss]))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        graphs = self.use.graphs
        if len(graphs) < self.steps:
            look = len(graphs) in (self.steps // 2, self.steps - 1)
            graphs.append(graph_nodes(pl_module, own_callbacks(trainer), anywhere=look))
            if len(graphs) == self.steps:
                gc.unfreeze()  # the last look: who keeps a graph may have been there before
                self.use.note_keeper()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.use.validated, self.use.asked = [], False
        self.hooks = [
            after_forward(module, partial(self._watch, name, "." not in name))
            for name, module in pl_module.named_modules()
            if module is not pl_module
        ]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for hook in self.hooks:
            hook.remove()

    def _watch(self, name: str, outermost: bool, module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in tensors(output):
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(self._note)  # not the gradient itself, which may have a graph of its own
                if outermost:
                    self.use.validated.append(named(name, module))

    def _note(self, gradient: Tensor) -> None:
        self.use.asked = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        gc.unfreeze()
        ending = "no step was taken"
        if self.is_looking and self.use.graphs:
            self.use.kept.append(plain_bytes(pl_module, own_callbacks(trainer)))
            self.ask(self.probes, self.use)
            ending = "" if self.findings else f"no graph is kept over {len(self.use.graphs)} steps"
        self.seen = "; ".join(filter(None, [*self.use.said, ending]))


def own_callbacks(trainer: Trainer) -> list[Callback]:
    return [callback for callback in trainer.callbacks if not isinstance(callback, Experiment)]
