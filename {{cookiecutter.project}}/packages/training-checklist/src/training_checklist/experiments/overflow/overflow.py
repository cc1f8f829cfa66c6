"""Where numbers leave the range of their type: the first module, and line, that makes Inf or NaN."""

import inspect
import math
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training_checklist import session
from training_checklist.engines.observe import Places
from training_checklist.engines.own_code import shorten
from training_checklist.engines.replay import unchanged
from training_checklist.experiments.anomaly import Watch
from training_checklist.experiments.experiment import Experiment, stop
from training_checklist.experiments.overflow.first_overflow import FP16_MAX, Run
from training_checklist.experiments.overflow.forward_frames import Frames, floats, largest
from training_checklist.finding import FAILED, Finding, unsorted
from training_checklist.lightning import LightningModule, Trainer, is_overridden

LOWER = "python train.py +debug=overflow optimizer.lr=... with a tenth of the learning rate"
DATA = "python train.py +debug=limit_batches"
MIXED = ("16-mixed", "bf16-mixed")  # Lightning makes the second of the first on a CPU
CLIP_HOOKS = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping", "training_step")


class Overflow(Experiment):
    """Fails at the first Inf or NaN of the forward or the backward pass.

    Modules are watched in every step. Where something shows up, the step is run once more, operation by operation.

    Args:
        probe: whether to try one step in FP16 autocast before the first; None: where the precision is mixed.
        near: share of FP16's range above which it warns.
        clipped: norm, absolute and as a share of backward's, below which clipping must have met scaled gradients.
        frames: how many of the last calls of modules to show.
        trace_batches: of which batches to show all.
        abort_after_batch: the batch after which training ends, or None.
    """

    item = "overflow"

    def __init__(
        self,
        probe: bool | None,
        near: float,
        clipped: float,
        frames: int,
        trace_batches: list[int],
        abort_after_batch: int | None,
    ) -> None:
        super().__init__()
        self.probe, self.near, self.clipped, self.kept = probe, near, clipped, frames
        self.trace_batches, self.abort_after_batch = list(trace_batches), abort_after_batch
        self.largest: dict[str, float] = {}  # abs-max of a module's output over all steps
        self.norms: list[tuple[float, float]] = []  # of all gradients after backward, and in the optimizer's step
        self.steps = self.bad_gradients = 0
        self.frames: Frames | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.frames = Frames(pl_module, self.kept)
        self.norm = 0.0
        for optimizer in trainer.optimizers if len(trainer.optimizers) == 1 else ():
            optimizer.register_step_post_hook(lambda *_: self.norms.append((self.norm, gradient_norm(pl_module))))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch, self.batch_idx = batch, batch_idx
        probe = trainer.precision in MIXED if self.probe is None else self.probe
        if probe and self.steps == 0 and pl_module.automatic_optimization:
            self._probe(trainer, pl_module)
        self.random = torch.get_rng_state()
        self.frames.start(everything=batch_idx in self.trace_batches)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        outputs = self.frames.largest
        values = torch.stack([value.float() for *_, value in outputs]).tolist() if outputs else []
        for (path, dtype, _), value in zip(outputs, values, strict=True):
            if math.isfinite(value):
                self.largest[path] = max(value, self.largest.get(path, 0))
                if dtype == torch.float16 and value > self.near * FP16_MAX:
                    self._warn_near(value, f"{path}, batch {self.batch_idx}")
        bad = [path for (path, *_), value in zip(outputs, values, strict=True) if not math.isfinite(value)]
        # Inf that does not reach the loss is a mask, say.
        if not torch.isfinite(loss).all() or any(math.isnan(value) for value in values):
            self._add(self._forward_finding(trainer, pl_module, float(loss.detach()), bad))
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
        if scaler is None or self.bad_gradients == self.steps + 1 == trainer.num_training_batches:
            run = self._run(pl_module, trainer.precision_plugin.forward_context(), self.random)
            self._add(backward_finding(run, f"in step {self.steps}"))
            stop(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.steps += 1
        if batch_idx == self.abort_after_batch:
            stop(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        bad = [path for path, _, value in self.frames.largest if not torch.isfinite(value)] if self.frames else []
        if bad and not self.findings:
            self._add(self._forward_finding(trainer, pl_module, math.nan, bad))

    def explain(self, error: Exception) -> Finding | None:
        return self.findings[0] if self.findings else None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.frames.remove()
        self.frames.start(everything=False)  # it holds the tensors of a step
        self._judge_clipping(trainer, pl_module)
        path = max(self.largest, key=self.largest.get, default="")
        self.facts["largest"] = self.largest
        if path:
            largest_output = f"{self.largest[path]:.3g} in {path}"
            self.seen = f"{self.steps} steps; largest output {largest_output} (FP16 ends at {FP16_MAX:g})"

    def _probe(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Try the step in FP16."""
        run = self._run(pl_module, torch.autocast(pl_module.device.type, torch.float16), torch.get_rng_state())
        self.facts["probe"] = run.error or "done"
        if run.first is not None and not math.isfinite(run.loss):
            own = self._run(pl_module, trainer.precision_plugin.forward_context(), torch.get_rng_state())
            run.first.only_in_fp16 = own.first is None
            self._add(run.first.finding(f"in FP16 autocast, tried on batch {self.batch_idx}, the loss is {run.loss}"))
        elif run.backward is not None:
            self._add(backward_finding(run, "in FP16 autocast"))
        elif run.largest[0] > self.near * FP16_MAX:
            self._warn_near(*run.largest)

    def _warn_near(self, value: float, place: str) -> None:
        if not self.findings:
            self.warn(
                f"FP16 values up to {value:.3g}: {value / FP16_MAX:.0%} of its range, which ends at {FP16_MAX:g}",
                place,
                "a batch with somewhat larger values makes it Inf, and NaN after that",
                "python train.py trainer.precision=bf16-mixed has the range of FP32",
            )

    def _tell(self, title: str) -> None:
        print(f"\n{title}: abs-min and abs-max", *self.frames.table(), sep="\n", flush=True)

    def _forward_finding(self, trainer: Trainer, pl_module: LightningModule, loss: float, bad: list[str]) -> Finding:
        """Name what made the first Inf or NaN: the weights, the data, or an operation."""
        self._tell(f"the last forward frames of batch {self.batch_idx}")
        what = f"the loss is {loss} in step {self.steps}, batch {self.batch_idx}"
        broken = [name for name, p in pl_module.named_parameters() if not torch.isfinite(p).all()]
        if broken:
            zero = zero_eps(trainer)
            if zero is not None:
                eps, name, dtype = zero
                why = (
                    f"{name} divides by the root of squared gradients plus eps, and eps={eps:g} is 0 in {dtype}: 0 / 0"
                )
                place = f"optimizer.eps={eps:g} of {name}, which makes {', '.join(broken[:4])} NaN or Inf"
                fix = "python train.py +debug=overflow trainer.precision=bf16-mixed, or ++optimizer.eps=0.0001"
                return unsorted(FAILED, f"{what}: the optimizer has made weights NaN or Inf", place, why, fix)
            why = "the step before has made it so: python train.py +debug=gradients"
            return unsorted(FAILED, f"{what}: weights are NaN or Inf already", ", ".join(broken[:4]), why, LOWER)
        if not all(torch.isfinite(each).all() for each in floats(self.batch)):
            why = "the network is given them: the data is at fault"
            return unsorted(FAILED, f"{what}: the batch holds NaN or Inf", "the batch", why, DATA)
        run = self._run(pl_module, trainer.precision_plugin.forward_context(), self.random)
        if run.first is not None:
            return run.first.finding(what)
        place = f"{bad[0]}, the first module with Inf or NaN in its output" if bad else "training_step"
        return unsorted(FAILED, what, place, "the range of its inputs is in the frames above", DATA)

    def _run(self, pl_module: LightningModule, context: AbstractContextManager, random: Tensor) -> Run:
        """Run the training step once more without a trace of it."""
        arguments = (self.batch, self.batch_idx)[: len(inspect.signature(pl_module.training_step).parameters)]
        run, watch = Run(Places(pl_module)), Watch(Places(pl_module))
        self.frames.start(everything=True)
        weights = [parameter for parameter in pl_module.parameters() if parameter.requires_grad]
        try:
            with unchanged(pl_module), context:
                torch.set_rng_state(random)
                with watch, run:
                    result = type(pl_module).training_step(pl_module, *arguments)
                loss = result["loss"] if isinstance(result, dict) else result
                run.loss = float(loss.detach())
                if math.isfinite(run.loss):
                    torch.autograd.grad(loss, weights, allow_unused=True)
        except Exception as error:  # such as an operation that this device does not have in FP16
            run.error = f"{type(error).__name__}: {error}"
        run.backward = watch.first
        if run.first is not None:
            run.first.reached = self.frames.first_bad_input()
        return run

    def _judge_clipping(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Gradients of a scaled loss that are clipped before they are unscaled come out too small by the scale."""
        known = [(given, used) for given, used in self.norms if 0 < given < math.inf and used > 0]
        if not known or not all(used < self.clipped * min(1, given) for given, used in known):
            return
        given, used = known[-1]
        hooks = [name for name in CLIP_HOOKS if is_overridden(name, pl_module)]
        hook = next((name for name in hooks if name != "training_step" or not pl_module.automatic_optimization), None)
        self.fail(
            f"gradients shrink from a norm of {given:.3g} after backward to {used:.3g} in the optimizer's step, "
            f"in all of {len(known)} steps",
            line_of(getattr(pl_module, hook)) if hook else f"trainer.gradient_clip_val={trainer.gradient_clip_val}",
            f"{used * 65536:.3g} / 65536 is {used:.3g}: a clip of gradients scaled by 65536 cuts them by that too",
            "clip after unscaling: remove the clipping from the hook; python train.py trainer.gradient_clip_val=1.0",
        )


def zero_eps(trainer: Trainer) -> tuple[float, str, str] | None:
    """Return the first eps of an optimizer that is 0 in the type of its weights, its name and the type's; or None."""
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            for dtype in {weight.dtype for weight in group["params"]}:
                if group.get("eps") and not torch.tensor(float(group["eps"]), dtype=dtype).any():
                    return float(group["eps"]), type(optimizer).__name__, str(dtype).removeprefix("torch.")
    return None


def backward_finding(run: Run, seen: str) -> Finding:
    kind, operation, place = run.backward or ("NaN or Inf", "an operation", "the backward pass")
    return unsorted(
        FAILED,
        f"{seen} the loss is {run.loss:.4g}, and backward of {operation} makes the first {kind}",
        place.replace(f"{Path.cwd()}{os.sep}", ""),
        "the forward value is finite, its slope is not: a root or norm at 0, a division near 0, an eps of 0 in FP16",
        "keep the operand away from the edge with an eps inside; python train.py +debug=anomaly",
    )


def detect_overflow(tensor: Tensor, name: str) -> bool:
    """Return whether `tensor` holds Inf or NaN, and tell so with its range; for a line of one's own `forward`.

    Under +debug=overflow it is a finding as well.
    """
    value = float(largest(tensor.detach())) if tensor.numel() else 0.0
    if math.isfinite(value):
        return False
    nan, inf = int(tensor.isnan().sum()), int(tensor.isinf().sum())
    finite = tensor.detach()[tensor.isfinite()].abs()
    rest = f"the rest {float(finite.min()):.3g} to {float(finite.max()):.3g}" if finite.numel() else "nothing else"
    what = f"{name}: {nan} NaN and {inf} Inf of {tensor.numel()} ({str(tensor.dtype).removeprefix('torch.')}), {rest}"
    print(what, flush=True)
    check = session.find("overflow")
    if check is not None:
        check.fail(what, name, "what detect_overflow was given has left the range of its type", "look at what makes it")
    return True


def gradient_norm(pl_module: LightningModule) -> float:
    gradients = [p.grad for p in pl_module.parameters() if p.grad is not None and not p.grad.is_sparse]
    return float(torch.stack(torch._foreach_norm(gradients)).norm()) if gradients else 0.0


def line_of(function: Any) -> str:
    return f"{function.__qualname__}, {shorten(inspect.getfile(function))}:{inspect.getsourcelines(function)[1]}"
