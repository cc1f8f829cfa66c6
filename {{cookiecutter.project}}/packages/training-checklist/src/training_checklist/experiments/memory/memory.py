"""Does training fit into memory, and does it stay there?"""

import gc
import inspect
import math
from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from training_checklist.engines.batches import tensors
from training_checklist.engines.held import NOWHERE, graph_nodes, plain_bytes
from training_checklist.engines.splits import splits
from training_checklist.experiments.experiment import Experiment, NoWorkers, stop
from training_checklist.experiments.memory.peak_memory import (
    ACTIVATIONS,
    GRADIENTS,
    OPTIMIZER,
    PARAMETERS,
    Peak,
    batch_size,
    predict,
)
from training_checklist.lightning import Callback, CombinedLoader, LightningModule, Trainer, isolate_rng

GIB = 2**30
OF_PARAMETERS = (PARAMETERS, GRADIENTS, OPTIMIZER)  # parts of the peak that parameters bring along


class Memory(Experiment):
    """Fails where the predicted peak exceeds the budget, or a graph of every step is kept; warns of other growth.

    Args:
        budget_gb: what the accelerator has, in GiB; None: that of this machine's own, else `small_gb`.
        small_gb: see there.
        overhead_gb: what the prediction leaves out: the device's context, workspaces of kernels, fragmentation.
        steps: of training in which something must grow every time to be a leak.
        min_kept_kb: least growth in an epoch, of tensors without a graph that one attribute keeps.
    """

    item = "memory"

    def __init__(
        self, budget_gb: float | None, small_gb: float, overhead_gb: float, steps: int, min_kept_kb: float
    ) -> None:
        super().__init__()
        has_own = budget_gb is None and torch.cuda.is_available()
        own = torch.cuda.get_device_properties(0).total_memory / GIB if has_own else small_gb
        self.budget_gb = own if budget_gb is None else budget_gb
        self.overhead_gb = overhead_gb
        self.room = (self.budget_gb - overhead_gb) * GIB
        self.steps, self.min_kept_kb = steps, min_kept_kb
        self.notes: list[str] = []
        self.graphs: list[Counter[str]] = []
        self.kept: list[Counter[str]] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with isolate_rng(), NoWorkers():
            raw, _, _ = next(iter(CombinedLoader(trainer.fit_loop._data_source.dataloader(), "min_size")))
        if not pl_module.automatic_optimization:
            self.notes.append("no prediction, for its training_step steps the optimizers itself")
            return
        try:
            peak = predict(pl_module, trainer, raw)
        except Exception as error:
            line = str(error).strip().partition("\n")[0][:100]
            self.notes.append(f"no prediction, for the step depends on values ({type(error).__name__}: {line})")
            return
        fits = self._largest_batch(pl_module, trainer, raw, peak)
        self.facts |= {"predicted_gb": peak.bytes / GIB, "budget_gb": self.budget_gb, "largest_batch": fits}
        self.facts |= {"parts_bytes": peak.parts, "stages_bytes": peak.stages, "activations_bytes": peak.modules}
        self.notes.append(f"predicted peak {size(peak.bytes)} of {self.budget_gb:g} GiB: {shares(peak)}")
        if fits is not None:
            self.notes.append(f"a batch of about {rounded(fits)} would fill it")
        if peak.bytes > self.room:
            self._over_budget(pl_module, trainer, raw, peak, fits)
            stop(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.kept:
            gc.freeze()  # what is there already: each later look at every object is quick then
        self.kept.append(plain_bytes(pl_module, own_callbacks(trainer)))

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        gc.unfreeze()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if len(self.graphs) < self.steps:
            last = len(self.graphs) in (self.steps // 2, self.steps - 1)
            self.graphs.append(graph_nodes(pl_module, own_callbacks(trainer), anywhere=last))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.outputs: list[tuple[str, list[Tensor]]] = []
        self.hooks = [module.register_forward_hook(self._watch) for module in pl_module.children()]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for hook in self.hooks:
            hook.remove()
        unused = [name for name, used in self.outputs if not used]
        if unused:
            self.warn(
                f"validation builds a graph: the output of {unused[0]} requires gradients, and nothing asks for them",
                f"{type(pl_module).__name__}.validation_step, {unused[0]}",
                "all activations stay until the batch ends, or as long as anything of it is kept",
                "leave out torch.enable_grad() and set_grad_enabled(True) there, and keep trainer.inference_mode=true",
            )

    def _watch(self, module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in tensors(output):
            if tensor.requires_grad and tensor.grad_fn is not None:
                used: list[Tensor] = []
                tensor.register_hook(used.append)
                self.outputs.append((type(module).__name__, used))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        gc.unfreeze()
        self.kept.append(plain_bytes(pl_module, own_callbacks(trainer)))
        self._judge_graphs()
        self._judge_kept()
        self._judge_datasets(trainer)
        if not self.graphs:
            self.notes.append("no step was taken")
        elif not self.findings:
            self.notes.append(f"no graph is kept over {len(self.graphs)} steps")
        self.seen = "; ".join(self.notes)

    def _judge_graphs(self) -> None:
        """Find what holds more of autograd's nodes after every step, the first one aside."""
        counts = self.graphs[1:]
        if len(counts) < 4:
            return
        growing = [place for place in max(counts, key=len) if rises([count[place] for count in counts])]
        somewhere = [count[NOWHERE] for count in counts if NOWHERE in count]
        if not growing and len(somewhere) > 1 and rises(somewhere):
            growing = [NOWHERE]
        for place in growing:
            held_nodes = [count[place] for count in counts if place in count]
            self.fail(
                f"{place} grows by one graph per step: from {held_nodes[0]} to {held_nodes[-1]} nodes of autograd, "
                f"in {len(self.graphs)} steps",
                place,
                "a loss or output that is kept keeps its graph, and with it activations, until memory is full",
                f"keep loss.item() or output.detach() in {place.rpartition('.')[2]}, not the loss or output itself",
            )

    def _judge_kept(self) -> None:
        """Find what holds more tensors without a graph after every epoch."""
        for place in max(self.kept, key=len):
            sizes = [size[place] for size in self.kept]
            grown = sizes[-1] - sizes[0]
            if len(sizes) < 3 or not rises(sizes) or grown < self.min_kept_kb * 1024 * (len(sizes) - 1):
                continue
            if any(finding.where == place for finding in self.findings):
                continue
            self.warn(
                f"{place} keeps {size(grown)} more after {len(sizes) - 1} epochs of {len(self.graphs)} steps in all",
                place,
                "what is collected and never cleared fills memory in the end",
                f"clear it when the epoch ends: {place.rpartition('.')[2]}.clear() in on_train_epoch_end or "
                "on_validation_epoch_end; or use a torchmetrics.Metric",
            )

    def _judge_datasets(self, trainer: Trainer) -> None:
        """Load one sample again and again: a cache has it after the first time, and only a leak goes on growing."""
        for split in splits("train", trainer.train_dataloader):
            if not split.indexable or not len(split.dataset):
                continue
            sizes = []
            with isolate_rng():
                for _ in range(3):
                    try:
                        split.items([0])
                    except Exception:  # a dataset may want other keys than numbers
                        return
                    sizes.append({name: len(value) for name, value in containers(split.dataset)})
            for name in sizes[0]:
                if rises([size.get(name, 0) for size in sizes]):
                    place = f"{split.name}: {type(split.dataset).__name__}.{name}"
                    self.fail(
                        f"{place} grows each time that one sample is loaded: {sizes[0][name]} to {sizes[-1][name]}",
                        place,
                        "it grows with every sample of every epoch, in every worker, until memory is full",
                        f"keep nothing in {name}, or one entry a sample, under its index",
                    )

    def _largest_batch(self, pl_module: LightningModule, trainer: Trainer, raw: Any, peak: Peak) -> int | None:
        """Return how many samples fill the budget, by a line through the peaks of this batch and of twice as many."""
        samples = batch_size(raw)
        try:
            each = (predict(pl_module, trainer, raw, times=2).bytes - peak.bytes) / samples
        except Exception:  # such as a batch with parts of which it is not known how to double them
            return None
        return max(int(samples + (self.room - peak.bytes) / each), 0) if each > 0 else None

    def _over_budget(
        self, pl_module: LightningModule, trainer: Trainer, raw: Any, peak: Peak, fits: int | None
    ) -> None:
        kind, most = max(peak.parts.items(), key=lambda part: part[1])
        owner = largest_owner(pl_module) if kind in OF_PARAMETERS else ""
        module = peak.largest_module() if kind == ACTIVATIONS else owner
        largest = f"{kind}{f' of {module}' if module else ''}, {size(most)}"
        self.fail(
            f"predicted peak {size(peak.bytes)} + {self.overhead_gb:g} GiB overhead exceeds the budget of "
            f"{self.budget_gb:g} GiB; largest part: {largest}\n{shares(peak)}",
            module or type(pl_module).__name__,
            "training ends with 'out of memory' on such an accelerator; the overhead is its context, workspaces of "
            "kernels and fragmentation, which are not predicted",
            "\n".join(self._remedies(pl_module, trainer, raw, peak, fits)),
        )

    def _remedies(
        self, pl_module: LightningModule, trainer: Trainer, raw: Any, peak: Peak, fits: int | None
    ) -> list[str]:
        """Return the ways out, each with the peak that it is predicted to have."""
        remedies = []
        samples = batch_size(raw)
        if fits:
            parts = 2
            while samples // parts > fits:
                parts *= 2
            remedies.append(
                f"data.batch_size={samples // parts} trainer.accumulate_grad_batches="
                f"{parts * trainer.accumulate_grad_batches}: the same optimizer steps; {rounded(fits)} samples fit"
            )
        elif fits == 0:
            remedies.append("a smaller network, or an optimizer with less state: not even one sample fits")
        half = self._predicted(pl_module, trainer, raw, precision=torch.bfloat16)
        if half is not None and half < 0.95 * peak.bytes:
            remedies.append(f"trainer.precision=bf16-mixed: {size(half)}")
        blocks = activation_blocks(pl_module, peak)
        recomputed = self._predicted(pl_module, trainer, raw, recomputed=tuple(blocks)) if blocks else None
        if recomputed is not None and recomputed < 0.95 * peak.bytes:
            remedies.append(f"{checkpointing(pl_module, blocks)}: {size(recomputed)}")
        enough = math.ceil(peak.bytes / GIB + self.overhead_gb)
        remedies.append(f"callbacks.debug_memory.budget_gb={enough}, if the accelerator has that")
        return remedies

    def _predicted(self, pl_module: LightningModule, trainer: Trainer, raw: Any, **change: Any) -> int | None:
        try:
            return predict(pl_module, trainer, raw, **change).bytes
        except Exception:  # a remedy that does not work here
            return None


def activation_blocks(pl_module: LightningModule, peak: Peak) -> list[str]:
    """Return the innermost modules with parts of their own in which activations are made."""
    makes = {path.rpartition(".")[0] for path in peak.modules} | set(peak.modules)
    return [
        path
        for path, module in pl_module.named_modules()
        if path in makes and len(list(module.modules())) == 1 + len(list(module.children())) > 1 and path
    ]


def checkpointing(pl_module: LightningModule, blocks: list[str]) -> str:
    """Return how to have the activations of some modules recomputed."""
    if "checkpoint_stages" in inspect.signature(type(pl_module).__init__).parameters:
        return f"'model.checkpoint_stages=[{','.join(path.removeprefix('net.') for path in blocks)}]'"
    return f"x = torch.utils.checkpoint.checkpoint({blocks[0]}, x, use_reentrant=False) for {', '.join(blocks[:4])}"


def largest_owner(pl_module: LightningModule) -> str:
    """Return the module that holds more than half of all parameters itself, or ""; gradients and states go with it."""
    counts = {path: sum(p.numel() for p in m.parameters(recurse=False)) for path, m in pl_module.named_modules()}
    largest = max(counts, key=counts.get)
    return largest if 2 * counts[largest] > sum(counts.values()) else ""


def containers(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of what a dataset, and those that it wraps, keeps things in."""
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, (list, dict, set, deque)):
            yield name, value
        elif isinstance(value, Dataset) and value is not dataset:
            yield from ((f"{name}.{inner}", each) for inner, each in containers(value))


def own_callbacks(trainer: Trainer) -> list[Callback]:
    return [callback for callback in trainer.callbacks if not isinstance(callback, Experiment)]


def rises(values: list[int]) -> bool:
    return all(later > earlier for earlier, later in pairwise(values))


def size(count: float) -> str:
    """Return bytes as "1.50 GiB", "23.4 MiB" or "5 KiB"."""
    if count >= GIB / 2:
        return f"{count / GIB:.2f} GiB"
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 1024:.0f} KiB"


def shares(peak: Peak) -> str:
    parts = sorted(peak.parts.items(), key=lambda part: -part[1])
    module = peak.largest_module()
    named = [f"{kind} {size(count)}{f' ({module})' if kind == ACTIVATIONS and module else ''}" for kind, count in parts]
    return ", ".join(named)


def rounded(count: int) -> int:
    """Return a count cut down to two digits: it is a prediction."""
    return int(count // 10 ** max(len(str(count)) - 2, 0) * 10 ** max(len(str(count)) - 2, 0))
