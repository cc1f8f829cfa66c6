"""Where numbers leave the range of their type: the first module, and line, that makes Inf or NaN."""

import math
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from training_checklist import session
from training_checklist.engines.around_step import around_step
from training_checklist.engines.not_finite import BadOperation, NotFinite, finite, floats, largest
from training_checklist.engines.own_config import bf16_in_files
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import call_step, in_own_containers, isolated, loss_in
from training_checklist.engines.tracer import Call, Tracer
from training_checklist.experiments.experiment import Experiment, stop
from training_checklist.experiments.overflow.forward_frames import Frames
from training_checklist.experiments.overflow.fp16_autocast import fp16_autocast
from training_checklist.finding import Finding, Place
from training_checklist.lab.numerics import BackwardPasses, ForwardPass, Numbers
from training_checklist.lightning import LightningModule, Trainer, collect_rng_states, is_overridden, set_rng_states

# Lightning makes the second of the first on a CPU, and who asks for the second there may mean to go to FP16 elsewhere,
# unless the files of the project ask for BF16.
MIXED = ("16-mixed", "bf16-mixed")
CLIP_HOOKS = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping", "training_step")


@dataclass
class Replay:
    """A training step that was run once more, operation by operation."""

    loss: float = math.nan
    forward: BadOperation | None = None
    backward: BadOperation | None = None
    half: dict[Place, float] = field(default_factory=dict)
    error: str = ""

    def look(self, call: Call) -> None:
        """Keep the largest FP16 value."""
        for tensor in floats(call.made):
            if tensor.dtype == torch.float16 and float(largest(tensor)) > max(self.half.values(), default=0.0):
                self.half = {call.place: float(largest(tensor))}


class Overflow(Experiment):
    """Watches the range of what modules return. Where it ends, the step is run once more, operation by operation.

    Args:
        probe: whether to try one step in FP16 autocast before the first; None: where the precision is mixed, unless the
            project's files ask for BF16.
        frames: how many of the last calls of modules to show.
        trace_batches: of which batches to show all.
        abort_after_batch: the batch after which training ends, or None.
    """

    item = "overflow"

    def __init__(
        self, topics: list[str], probe: bool | None, frames: int, trace_batches: list, abort_after_batch: int | None
    ) -> None:
        super().__init__(topics)
        self.numbers = Numbers()
        self.probe, self.kept = probe, frames
        self.trace_batches, self.abort_after_batch = list(trace_batches), abort_after_batch
        self.largest: dict[str, float] = {}  # abs-max of a module's output over all steps
        self.norms: list[tuple[float, float]] = []  # of all gradients after backward, and in the optimizer's step
        self.norm = self.loss = 0.0
        self.steps = self.batch_idx = self.bad_gradients = 0
        self.frames: Frames | None = None
        self.batch: Any = None
        self.random = collect_rng_states()
        self.live: NotFinite | None = None  # where a step drives its optimizers itself and cannot be run once more
        self.around = ExitStack()
        self.crashed: Finding | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.frames = Frames(pl_module, self.kept)
        self.around.callback(self.frames.remove)
        if not pl_module.automatic_optimization:
            self.live = NotFinite()
            self.around.enter_context(around_step(pl_module, Tracer(pl_module, self.live)))
        for optimizer in trainer.optimizers if len(trainer.optimizers) == 1 else ():
            handle = optimizer.register_step_post_hook(
                lambda *_: self.norms.append((self.norm, gradient_norm(pl_module)))
            )
            self.around.callback(handle.remove)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch, self.batch_idx = in_own_containers(batch), batch_idx  # as it is before the step
        if self.steps == 0 and pl_module.automatic_optimization and self._is_probed(trainer):
            self._probe(trainer, pl_module)
        self.random = collect_rng_states()
        self.frames.start(everything=batch_idx in self.trace_batches)
        if self.live is not None:
            self.live.clear()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self.loss = float(loss.detach().sum())
        outputs = self.frames.largest
        values = torch.stack([value.float() for *_, value in outputs]).tolist() if outputs else []
        for (path, dtype, _), value in zip(outputs, values, strict=True):
            if math.isfinite(value):
                self.largest[path] = max(value, self.largest.get(path, 0))
                if dtype == torch.float16:
                    self.numbers.largest_in_fp16[Place(module=path, batch=self.batch_idx)] = value
        if not math.isfinite(self.loss):  # what does not reach the loss is a mask, say
            bad = [path for (path, *_), value in zip(outputs, values, strict=True) if not math.isfinite(value)]
            self._judge_forward(trainer, pl_module, bad, loss)
            stop(trainer)
        traced = self.batch_idx in self.trace_batches
        if traced:
            self._tell(f"batch {self.batch_idx}")
        self.frames.start(everything=traced)  # before backward, which can free the tensors then

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.norm = gradient_norm(pl_module) / (1.0 if scaler is None else scaler.get_scale())
        if math.isfinite(self.norm) or self.findings:
            return
        self.bad_gradients += 1
        # A scaler skips steps while it looks for its scale.
        if scaler is None or self.bad_gradients == self.steps + 1 == trainer.num_training_batches:
            bad = self.live.backward if self.live is not None else self._replay_own(trainer, pl_module).backward
            bad = bad or BadOperation("NaN or Inf", "an operation")
            self.ask(self.probes, self.numbers, backward=BackwardPasses(self.steps, bad, self.loss, reaches=True))
            stop(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.steps += 1
        if batch_idx == self.abort_after_batch:
            stop(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        outputs = self.frames.largest if self.frames is not None else []
        bad = [path for path, _, value in outputs if value.isnan()]
        if bad and not self.findings:  # of which the exception may only be what follows
            self.loss = math.nan
            self._judge_forward(trainer, pl_module, bad)
            self.crashed = next(iter(self.findings), None)
        self.around.close()

    def explain(self, error: Exception) -> Finding | None:
        return self.crashed

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.around.close()
        self.frames.start(everything=False)  # it holds the tensors of a step
        self.batch = self.live = None
        if not self.steps:
            return
        hooks = [name for name in CLIP_HOOKS if is_overridden(name, pl_module)]
        hook = next((name for name in hooks if name != "training_step" or not pl_module.automatic_optimization), None)
        clips = Place(key="trainer.gradient_clip_val", value=str(trainer.gradient_clip_val))
        clips = of_function(getattr(type(pl_module), hook)) if hook else clips
        self.ask(self.probes, self.numbers, norms=self.norms, clips=clips)
        if not self.findings:
            forward, backward = ForwardPass(self.loss, ""), BackwardPasses(self.steps, loss=self.loss)
            self.ask(self.probes, self.numbers, forward=forward, backward=backward)
        path = max(self.largest, key=self.largest.get, default="")
        self.facts["largest"] = self.largest
        if path:
            limit = torch.finfo(torch.float16).max
            self.seen = (
                f"{self.steps} steps; largest output {self.largest[path]:.3g} in {path} (FP16 ends at {limit:g})"
            )
        elif not self.findings:
            self.skip(
                "no output of a module was seen before a backward pass by Lightning, such as self.manual_backward"
            )

    def _is_probed(self, trainer: Trainer) -> bool:
        return (trainer.precision in MIXED and not bf16_in_files()) if self.probe is None else self.probe

    def _probe(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Try the step in FP16."""
        self.random = collect_rng_states()
        tried = self._replay(pl_module, fp16_autocast(pl_module.device.type))
        self.facts["probe"] = tried.error or "done"
        if tried.error:
            return
        if tried.forward is not None and not math.isfinite(tried.loss):
            only = self._replay_own(trainer, pl_module).forward is None
            seen = f"in FP16 autocast, tried on batch {self.batch_idx}, the loss is {tried.loss}"
            self.ask(self.probes, self.numbers, forward=ForwardPass(tried.loss, seen, tried.forward, only_fp16=only))
            return
        self.numbers.largest_in_fp16 |= tried.half
        self.ask(self.probes, self.numbers, backward_in_fp16=BackwardPasses(self.steps, tried.backward, tried.loss))

    def _tell(self, title: str) -> None:
        print(f"\n{title}: abs-min and abs-max", *self.frames.table(), sep="\n", flush=True)

    def _judge_forward(
        self, trainer: Trainer, pl_module: LightningModule, bad: list[str], loss: Tensor | None = None
    ) -> None:
        """Record what made the first Inf or NaN: the weights, the data, or an operation."""
        self._tell(f"the last forward frames of batch {self.batch_idx}")
        found = ForwardPass(self.loss, f"the loss is {self.loss} in step {self.steps}, batch {self.batch_idx}")
        found.weights = [name for name, weight in pl_module.named_parameters() if not finite([weight])]
        found.batch = not finite([self.batch])
        found.module = bad[0] if bad else ""
        if found.weights:
            found.eps = zero_eps(trainer)
        elif not found.batch:
            live = self.live
            found.bad = live.behind(loss) if live is not None else self._replay_own(trainer, pl_module).forward
        self.ask(self.probes, self.numbers, forward=found)

    def _replay_own(self, trainer: Trainer, pl_module: LightningModule) -> Replay:
        return self._replay(pl_module, trainer.precision_plugin.forward_context())

    def _replay(self, pl_module: LightningModule, context: AbstractContextManager) -> Replay:
        """Run the training step once more without a trace of it."""
        replay, weights = Replay(), [weight for weight in pl_module.parameters() if weight.requires_grad]
        watch = NotFinite(replay.look)
        frames = None
        try:
            with isolated(pl_module), context:
                frames = Frames(pl_module, None)
                set_rng_states(self.random)
                with Tracer(pl_module, watch):
                    loss = loss_in(call_step(pl_module, "training_step", self.batch, self.batch_idx))
                replay.loss = math.nan if loss is None else float(loss.detach().sum())
                replay.forward = watch.behind(loss)
                if math.isfinite(replay.loss):
                    torch.autograd.grad(loss, weights, allow_unused=True)
        except Exception as error:  # such as an operation that this device does not have in FP16
            replay.error = f"{type(error).__name__}: {error}"
            replay.forward = watch.first
        finally:
            if frames is not None:
                frames.remove()
        replay.backward = watch.backward
        if replay.forward is not None and frames is not None:
            replay.forward.reached = frames.first_bad_input()
        return replay


def zero_eps(trainer: Trainer) -> tuple[float, str, str] | None:
    """Return the first eps of an optimizer that is 0 in the type of its weights, its name and the type's; or None."""
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            for dtype in {weight.dtype for weight in group["params"]}:
                if group.get("eps") and not torch.tensor(float(group["eps"]), dtype=dtype).any():
                    return float(group["eps"]), type(optimizer).__name__, str(dtype).removeprefix("torch.")
    return None


def detect_overflow(tensor: Tensor, name: str) -> bool:
    """Return whether `tensor` holds Inf or NaN, and tell so with its range; for a line of one's own `forward`.

    Under +debug=overflow it is a finding as well.
    """
    value, check = float(largest(tensor.detach())) if tensor.numel() else 0.0, session.find("overflow")
    if math.isfinite(value):
        if check is not None:
            check.numbers.shown.setdefault(name, "")
        return False
    nan, inf = int(tensor.isnan().sum()), int(tensor.isinf().sum())
    known = tensor.detach()[tensor.isfinite()].abs()
    rest = f"the rest {float(known.min()):.3g} to {float(known.max()):.3g}" if known.numel() else "nothing else"
    what = f"{name}: {nan} NaN and {inf} Inf of {tensor.numel()} ({str(tensor.dtype).removeprefix('torch.')}), {rest}"
    print(what, flush=True)
    if check is not None:
        check.numbers.shown[name] = what
        check.ask(check.probes, check.numbers)
    return True


def gradient_norm(pl_module: LightningModule) -> float:
    """Return the norm of all gradients."""
    known = list(floats([weight.grad for weight in pl_module.parameters() if weight.grad is not None]))
    return float(torch.stack([norm.float().cpu() for norm in torch._foreach_norm(known)]).norm()) if known else 0.0
