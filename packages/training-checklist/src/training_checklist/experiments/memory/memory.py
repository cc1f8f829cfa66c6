"""Does training fit into memory, and does it stay there?"""

import gc
import inspect
import math
import time
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from torch.utils.hooks import RemovableHandle

from training_checklist.engines.batches import tensors
from training_checklist.engines.held import NOWHERE, count_nodes, graph_nodes, holder, plain_bytes, with_graph
from training_checklist.engines.places import named, of_function
from training_checklist.engines.sizes import GIB, in_bytes
from training_checklist.engines.splits import splits
from training_checklist.engines.uncopied import Uncopied
from training_checklist.evidence.memory_use import (
    GraphNodes,
    KeptTensors,
    LoadedAgain,
    PredictedPeak,
    ValidationGraphs,
)
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
from training_checklist.finding import Place
from training_checklist.lightning import Callback, CombinedLoader, LightningModule, Trainer, isolate_rng

FAR = 5.0  # seconds that the prediction for a batch which fills the budget may take
OF_PARAMETERS = (PARAMETERS, GRADIENTS, OPTIMIZER)  # parts of the peak that parameters bring along


class Memory(Experiment):
    """A prediction of the peak of one step, and two short epochs in which what is kept is counted.

    Args:
        budget_gb: what the accelerator has, in GiB; None: that of this machine's own, else `small_gb`.
        small_gb: see there.
        overhead_gb: what the prediction leaves out: the device's context, workspaces of kernels, fragmentation.
        steps: of training after which is counted what is kept.
    """

    item = "memory"

    def __init__(self, budget_gb: float | None, small_gb: float, overhead_gb: float, steps: int) -> None:
        super().__init__()
        has_own = budget_gb is None and torch.cuda.is_available()
        own = torch.cuda.get_device_properties(0).total_memory / GIB if has_own else small_gb
        self.budget_gb = own if budget_gb is None else budget_gb
        self.assumed = budget_gb is None and not has_own
        self.overhead_gb = overhead_gb
        self.room = (self.budget_gb - overhead_gb) * GIB
        self.steps = steps
        self.notes: list[str] = []
        self.graphs: list[Counter[str]] = []
        self.before: list[ref[Tensor]] = []  # what other runs of this process have left
        self.kept: list[Counter[str]] = []
        self.sizes: list[int] = []  # nodes of the graph of each step
        self.outputs: list[tuple[str, list[Tensor]]] = []
        self.hooks: list[RemovableHandle] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        peak = self._predict(trainer, pl_module)
        self.judge(peak)
        if peak.bytes is None:
            self.notes.append(f"no prediction: {peak.reason}")
        elif peak.bytes > self.room:
            stop(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.kept:
            self.before = [ref(each) for each in with_graph()]
            gc.freeze()  # what is there already: each later look at every object is quick then
        self.kept.append(plain_bytes(pl_module, own_callbacks(trainer)))

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        gc.unfreeze()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self.sizes.append(count_nodes([loss]))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if len(self.graphs) < self.steps:
            last = len(self.graphs) in (self.steps // 2, self.steps - 1)
            self.graphs.append(graph_nodes(pl_module, own_callbacks(trainer), anywhere=last))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.outputs = []
        self.hooks = [
            module.register_forward_hook(Uncopied(partial(self._watch, name)))
            for name, module in pl_module.named_children()
        ]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for hook in self.hooks:
            hook.remove()
        # Where validation asks for gradients, as forces are, its graph is meant, whatever lies beside their way.
        asked = any(used for _, used in self.outputs)
        unused = [] if asked else [name for name, _ in self.outputs]
        self.judge(ValidationGraphs(unused, of_function(type(pl_module).validation_step)))

    def _watch(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in tensors(output):
            if tensor.requires_grad and tensor.grad_fn is not None:
                used: list[Tensor] = []
                tensor.register_hook(used.append)
                self.outputs.append((named(name, module), used))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        gc.unfreeze()
        self.kept.append(plain_bytes(pl_module, own_callbacks(trainer)))
        if not self.graphs:
            self.notes.append("no step was taken")
        else:
            self._judge_kept()
            self.judge(*self._loaded_again(trainer))
        if self.graphs and not self.findings:
            self.notes.append(f"no graph is kept over {len(self.graphs)} steps")
        self.seen = "; ".join(self.notes)

    def _judge_kept(self) -> None:
        counts = self.graphs[1:]  # the first step may build what stays
        places = [place for place in max(counts, key=len, default={}) if place != NOWHERE]
        nodes = [GraphNodes(place, [count[place] for count in counts]) for place in places]
        alive = [count[NOWHERE] for count in counts if NOWHERE in count]
        self.judge(*nodes)
        if not self.has_found("memory/graph-kept"):  # what an attribute keeps is alive anywhere, too
            grows = bool(alive) and alive[-1] > alive[0]
            name = NOWHERE
            if grows:
                before = {id(each) for reference in self.before if (each := reference()) is not None}
                name = holder([each for each in with_graph() if id(each) not in before])
            self.judge(GraphNodes(name, alive, anywhere=True, of_a_step=min(self.sizes, default=0)))
        leaking = {finding.place.note for finding in self.findings}
        for place in max(self.kept, key=len):
            if place not in leaking:
                self.judge(KeptTensors(place, [size[place] for size in self.kept], len(self.graphs)))

    def _loaded_again(self, trainer: Trainer) -> Iterator[LoadedAgain]:
        """Load one sample again and again."""
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
                place = Place(loader=split.name, note=f"{type(split.dataset).__name__}.{name}")
                yield LoadedAgain(name, [size.get(name, 0) for size in sizes], place)

    def _predict(self, trainer: Trainer, pl_module: LightningModule) -> PredictedPeak:
        if not pl_module.automatic_optimization:
            return PredictedPeak(None, reason="its training_step steps the optimizers itself")
        with isolate_rng(), NoWorkers():
            raw, _, _ = next(iter(CombinedLoader(trainer.fit_loop._data_source.dataloader(), "min_size")))
        try:
            peak = predict(pl_module, trainer, raw)
        except Exception as error:  # of a step that asks for values, which the prediction has not
            self.facts["not_predicted"] = f"{type(error).__name__}: {error}"
            return PredictedPeak(None, reason="what a step does depends on values in the batch or the weights")
        fits = self._largest_batch(pl_module, trainer, raw, peak)
        self.facts |= {"predicted_gb": peak.bytes / GIB, "budget_gb": self.budget_gb, "largest_batch": fits}
        self.facts |= {"parts_bytes": peak.parts, "stages_bytes": peak.stages, "activations_bytes": peak.modules}
        self.notes.append(f"predicted peak {in_bytes(peak.bytes)} of {self.budget_gb:g} GiB: {shares(peak)}")
        if fits is not None:
            self.notes.append(f"a batch of about {rounded(fits)} would fill it")
        return self._described(pl_module, trainer, raw, peak, fits)

    def _described(
        self, pl_module: LightningModule, trainer: Trainer, raw: Any, peak: Peak, fits: int | None
    ) -> PredictedPeak:
        kind, most = max(peak.parts.items(), key=lambda part: part[1])
        owner = largest_owner(pl_module) if kind in OF_PARAMETERS else ""
        module = peak.largest_module() if kind == ACTIVATIONS else owner
        found = PredictedPeak(
            peak.bytes,
            self.budget_gb,
            self.assumed,
            self.overhead_gb,
            f"{kind}{f' of {module}' if module else ''}, {in_bytes(most)}",
            shares(peak),
            place=Place(module=module or type(pl_module).__name__),
        )
        if peak.bytes > self.room:
            found.overrides, found.advice = self._remedies(pl_module, trainer, raw, peak, fits)
        return found

    def _largest_batch(self, pl_module: LightningModule, trainer: Trainer, raw: Any, peak: Peak) -> int | None:
        """Return how many samples fill the budget: by a line from this batch's peak to twice that batch's.

        What that gives is predicted too. Where it does not lie on the line, the peak grows with a power of the batch,
        as where samples are compared with one another, or only when activations outgrow the optimizer's part.
        """
        samples = batch_size(raw)
        try:
            began = time.monotonic()
            twice = predict(pl_module, trainer, raw, times=2).bytes
            spent = time.monotonic() - began
            each = (twice - peak.bytes) / samples
            if each <= 0:
                return None
            fits = max(int(samples + (self.room - peak.bytes) / each), 0)
            # A network that goes through the batch step by step takes as many times as long.
            times = min(fits // samples, max(int(2 * FAR / spent), 4))
            if times <= 2:
                return fits
            fixed = peak.bytes - each * samples
            far = predict(pl_module, trainer, raw, times=times).bytes
        except Exception:  # such as a batch with parts of which it is not known how to double them
            return None
        power = math.log((far - fixed) / (twice - fixed)) / math.log(times / 2)
        return int(samples * times * ((self.room - fixed) / (far - fixed)) ** (1 / power))

    def _remedies(
        self, pl_module: LightningModule, trainer: Trainer, raw: Any, peak: Peak, fits: int | None
    ) -> tuple[tuple[str, ...], str]:
        """Return the overrides with which it fits, and further ways out with the peaks that are predicted for them."""
        overrides: tuple[str, ...] = ()
        ways, samples = [], batch_size(raw)
        if fits:
            parts = 2
            while samples // parts > fits:
                parts *= 2
            accumulated = parts * trainer.accumulate_grad_batches
            overrides = (f"data.batch_size={samples // parts}", f"trainer.accumulate_grad_batches={accumulated}")
            ways.append(f"these are the same optimizer steps; {rounded(fits)} samples fit")
        elif fits == 0:
            ways.append("a smaller network, or an optimizer with less state: not even one sample fits")
        half = self._predicted(pl_module, trainer, raw, precision=torch.bfloat16)
        if half is not None and half < peak.bytes:
            ways.append(f"trainer.precision=bf16-mixed: {in_bytes(half)}")
        blocks = activation_blocks(pl_module, peak)
        recomputed = self._predicted(pl_module, trainer, raw, recomputed=tuple(blocks)) if blocks else None
        if recomputed is not None and recomputed < peak.bytes:
            ways.append(f"{checkpointing(pl_module, blocks)}: {in_bytes(recomputed)}")
        enough = math.ceil(peak.bytes / GIB + self.overhead_gb)
        ways.append(f"callbacks.debug_memory.budget_gb={enough}, if the accelerator has that")
        return overrides, "; ".join(ways)

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


def shares(peak: Peak) -> str:
    parts = sorted(peak.parts.items(), key=lambda part: -part[1])
    module = peak.largest_module()
    named = [
        f"{kind} {in_bytes(count)}{f' ({module})' if kind == ACTIVATIONS and module else ''}" for kind, count in parts
    ]
    return ", ".join(named)


def rounded(count: int) -> int:
    """Return a count cut down to two digits: it is a prediction."""
    return int(count // 10 ** max(len(str(count)) - 2, 0) * 10 ** max(len(str(count)) - 2, 0))
