"""One training batch on its way through the network, module by module, up to the criterion."""

import inspect
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torchmetrics import Metric

from training_checklist.engines.batches import tensors
from training_checklist.engines.criterion_calls import (
    CriterionCall,
    CriterionCalls,
    around_training_step,
    last_operation,
)
from training_checklist.engines.own_code import shorten
from training_checklist.engines.replay import unchanged, unwatched
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.trace.forward_calls import ForwardCalls, ModuleCall, shapes, varies
from training_checklist.finding import FAILED, Finding, unsorted
from training_checklist.lightning import LightningModule, Trainer

COLUMNS = ("module", "type", "input", "output", "dtype", "device", "abs-min", "abs-max", "parameters")
SHOWN = 60  # rows in the terminal; the file has all
REGRESSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


class Trace(Experiment):
    """Fails where a module has no effect on the loss, or where what reaches the criterion does not fit it.

    Everything is read from the first training batch. Hooks are on the modules while `training_step` runs, and gone
    afterwards.

    Args:
        tolerance: how far the probabilities of a sample may be from the sum 1, and log-probabilities from its log.
        zeros: share of exact zeros, with nothing negative, that makes logits look cut by a ReLU.
    """

    item = "trace"

    def __init__(self, tolerance: float, zeros: float) -> None:
        super().__init__()
        self.tolerance, self.zeros = tolerance, zeros
        self.modules: ForwardCalls | None = None
        self.criteria: CriterionCalls | None = None
        self.ended = False
        self.reached: dict[str, bool] = {}  # parameter that got a gradient: whether it has anything but zeros

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.modules is not None:
            return
        self.batch_size = batch_size(batch)
        self.zero_start = [name for name, value in pl_module.named_parameters() if is_zero_start(name, value)]
        self.modules, self.criteria = ForwardCalls(pl_module), CriterionCalls(pl_module)
        self.watching = around_training_step(pl_module, self.modules, self.criteria)
        self.watching.__enter__()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if not self.ended and loss.requires_grad:
            self._judge_sign(loss)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.ended:
            return
        for name, parameter in pl_module.named_parameters():
            if parameter.grad is not None:
                self.reached[name] = self.reached.get(name, False) or bool(parameter.grad.any())

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.ended:
            return
        self.ended = True
        self.watching.__exit__(None, None, None)
        self._measure()
        if any(row.varies[0] is False for row in self.modules.rows) and varies(batch):
            # Nothing but dropout may make samples differ from here on.
            self._judge_without_noise(trainer, pl_module, batch)
        misfits = [call for call in self._judged() if self._judge_criterion(call)]
        for call in self._judged():
            self._judge_outputs(call, pl_module)
        self._judge_softmaxes([tuple(call.input.shape) for call in misfits])
        self._judge_effect(trainer, pl_module)
        self._judge_registration()
        self.criteria.criteria.clear()  # they hold the graph

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if self.modules is not None and not self.ended:
            self.watching.__exit__(None, None, None)
            self._measure()
            self._tell()

    def explain(self, error: Exception) -> Finding | None:
        """Return what the criterion was given, where it is the criterion that raised."""
        call = self.criteria.criteria[-1] if self.criteria is not None and self.criteria.criteria else None
        if call is None or call.result is not None:
            return None
        if call.outside:
            why, fix = f"{type(error).__name__}: {error}", "python train.py +debug=limit_batches"
            return unsorted(FAILED, call.outside, call.place, why, f"{fix}, or give the network more outputs")
        if call.input.is_cuda:  # a GPU that has raised answers nothing more
            return None
        found = misfit(call, self.tolerance, self.zeros)
        return None if found is None else unsorted(FAILED, found[0], call.place, found[1], found[2])

    def conclude(self, folder: Path) -> None:
        if self.modules is None:
            self.skip("no training batch was run")
            return
        if self.rank == 0:
            self._tell()
            (folder / "debug").mkdir(exist_ok=True)
            (folder / "debug" / "trace.md").write_text(markdown(self.modules.rows), encoding="utf-8")
            self.seen += f"; see {shorten(folder / 'debug' / 'trace.md')}"

    def _judged(self) -> list[CriterionCall]:
        """The calls that training learns by, and not those that only log."""
        return [call for call in self.criteria.criteria if call.result is not None and call.result.requires_grad]

    def _measure(self) -> None:
        rows = self.modules.rows
        self.facts["modules"] = [vars(row) | {"varies": list(row.varies)} for row in rows]
        criteria = {f"{call.name} of {shapes(call.input)} against {shapes(call.target)}" for call in self._judged()}
        self.seen = f"{len({row.path for row in rows})} modules called"
        self.seen += f"; {', '.join(sorted(criteria))}" if criteria else ""

    def _tell(self) -> None:
        console = Console()
        console.print()
        for line in aligned(self.modules.rows):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _judge_sign(self, loss: Tensor) -> None:
        """Compare the loss with the criterion that it is made of: it must grow with it."""
        calls = [call for call in self._judged() if call.result.ndim == 0]
        if not calls:
            return
        slopes = torch.autograd.grad(loss, [call.result for call in calls], retain_graph=True, allow_unused=True)
        known = [(call, float(slope)) for call, slope in zip(calls, slopes, strict=True) if slope is not None]
        if known and all(slope < 0 for _, slope in known):
            call = known[0][0]
            values = f"{float(loss.detach()):.4g} where {call.name} is {float(call.result.detach()):.4g}"
            self.fail(
                f"the loss is {values}: it falls as {call.name} grows",
                f"training_step: {call.place}",
                "training makes the criterion worse, and the loss falls without bound",
                "remove the minus sign",
            )
        elif known and all(slope == 0 for _, slope in known):
            call = known[0][0]
            self.fail(
                f"{call.name} has no effect on the loss: its gradient in the loss is exactly 0",
                f"training_step: {call.place}",
                "no weight changes, however long it trains",
                "look for a factor 0, .detach() or .data between the criterion and what training_step returns",
            )

    def _judge_criterion(self, call: CriterionCall) -> bool:
        found = misfit(call, self.tolerance, self.zeros)
        if found is not None:
            self.fail(found[0], call.place, found[1], found[2])
        return found is not None

    def _judge_outputs(self, call: CriterionCall, pl_module: LightningModule) -> None:
        classes = call.num_classes
        expected = [(path, metric.num_classes) for path, metric in metrics(pl_module)]
        for path, number in expected:
            if classes is not None and classes < number:
                self.fail(
                    f"the network has {classes} outputs but {path} counts {number} classes",
                    call.place,
                    "labels of the classes that it has no output for end training with an error",
                    f"give the last layer {number} outputs",
                )
        if varies(call.input) is False:
            self._judge_constant(call, self.modules.rows, batch_varies=False)

    def _judge_without_noise(self, trainer: Trainer, pl_module: LightningModule, batch: Any) -> None:
        """Run the step once more in evaluation mode."""
        if not pl_module.automatic_optimization:
            return
        arguments = (batch, 0)[: len(inspect.signature(pl_module.training_step).parameters)]
        modules, criteria = ForwardCalls(pl_module), CriterionCalls(pl_module)
        with unwatched(pl_module), unchanged(pl_module), suppress(Exception):  # of code that is not meant for that mode
            pl_module.eval()
            with trainer.precision_plugin.forward_context(), modules, criteria:
                pl_module.training_step(*arguments)
        for call in criteria.criteria:
            if call.result is not None and varies(call.input) is False:
                self._judge_constant(call, modules.rows, batch_varies=True)

    def _judge_constant(self, call: CriterionCall, rows: list[ModuleCall], batch_varies: bool) -> None:
        if self.zero_start:
            return  # a layer that starts from zero learns to tell samples apart
        flat = next((row for row in rows if row.varies == (True, False)), None)
        last = next((row for row in reversed(rows) if row.varies[1]), None)
        if flat is not None:
            place, fix = f"{flat.path} ({flat.type})", "look at the range that goes into it, in the table above"
        elif last is not None:
            place, fix = f"after {last.path} ({last.type})", "look at what is done to its output, in the table above"
        elif batch_varies and rows:
            place, fix = f"before {rows[0].path} ({rows[0].type})", "look at what is done to the batch before it"
        else:
            place, fix = "the training batch", "python train.py +debug=limit_batches"
        self.fail(
            f"all {len(call.input)} samples have the same output",
            place,
            "what all samples share cannot tell them apart",
            fix,
        )

    def _judge_softmaxes(self, judged: list[tuple[int, ...]]) -> None:
        for call in self.criteria.softmaxes:
            over_samples = call.dim == 0 and len(call.shape) > 1 and call.shape[0] == self.batch_size
            if over_samples and not call.of_pairs and call.shape not in judged:
                self.fail(
                    f"softmax over dim 0 of {'x'.join(map(str, call.shape))}: over the {self.batch_size} samples",
                    call.place,
                    "each sample's result depends on the samples that happen to be in its batch",
                    "give it dim=1 (or -1)",
                )

    def _judge_effect(self, trainer: Trainer, pl_module: LightningModule) -> None:
        held = {id(p) for optimizer in trainer.optimizers for group in optimizer.param_groups for p in group["params"]}
        trained = [name for name, p in pl_module.named_parameters() if p.requires_grad and id(p) in held]
        if not any(self.reached.values()):
            return  # all or nothing is not a module's fault
        without = [name for name in trained if name not in self.reached]
        for path, names in groups(without, trained):
            self._report_without_gradient(path, names, trainer, pl_module)
        zero = [name for name in trained if self.reached.get(name) is False]
        if self.zero_start:  # what lies before a layer of zeros gets its gradient from the second step on
            return
        for path, names in groups(zero, trained):
            self.fail(
                f"{path} has no effect on the loss: the gradients of its {len(names)} parameters are exactly 0",
                f"{path} ({', '.join(names[:4])}{', ...' if len(names) > 4 else ''})",
                "it is multiplied by 0, or what follows it is dead (a ReLU at 0) or constant (softmax over one value)",
                "look in the table above for abs-max 0, or for abs-min and abs-max that are the same; "
                "python train.py +debug=gradients",
            )

    def _report_without_gradient(
        self, path: str, names: list[str], trainer: Trainer, pl_module: LightningModule
    ) -> None:
        rows = [row for row in self.modules.rows if row.path == path or row.path.startswith(f"{path}.")]
        if not rows:
            why = "it is never called in training_step, or only its weights are used"
        elif not any(row.with_grad for row in rows):
            why = "it is called under torch.no_grad()"
        else:
            why = "it is called, but what it returns never reaches the loss: unused, or cut by .detach() or .data"
        owner, _, last = path.rpartition(".")
        container = pl_module.get_submodule(owner) if owner else pl_module
        one_of_many = isinstance(container, (nn.ModuleList, nn.ModuleDict)) and last  # an expert, a skipped layer
        deliberate = one_of_many or (rows and not any(row.with_grad for row in rows))
        report = self.warn if deliberate or not pl_module.automatic_optimization else self.fail
        report(
            f"{path} has no effect on the loss: {len(names)} parameters that the optimizer holds get no gradient",
            f"{path} ({', '.join(names[:4])}{', ...' if len(names) > 4 else ''})",
            why,
            "use it, remove it, or freeze it with requires_grad_(False); python train.py +debug=gradients",
        )

    def _judge_registration(self) -> None:
        for module in self.modules.unregistered:
            self.fail(
                f"{module.path} ({module.type}, {module.parameters} parameters) is called but is not registered",
                module.path,
                "the optimizer never sees its weights, checkpoints lack them, and they stay on the CPU",
                "assign it to an attribute of the module, or keep it in nn.ModuleList or nn.ModuleDict",
            )


def misfit(call: CriterionCall, tolerance: float, zeros: float) -> tuple[str, str, str] | None:
    """Return what is wrong with a criterion's input, why that matters and what to do; None where it fits."""
    scores = call.input.detach().float()
    if call.name in REGRESSES:
        return broadcast(call)
    if not scores.numel() or not scores.isfinite().all():
        return None
    tolerance += 4 * torch.finfo(call.input.dtype).eps if call.input.is_floating_point() else 0
    shape, last = "x".join(map(str, scores.shape)), last_operation(call.input)
    if call.name == "binary_cross_entropy_with_logits":
        if last in ("Sigmoid", "Softmax"):
            return (
                f"{call.name} gets probabilities: {ranged(scores)}, the output of a {last.lower()}",
                "it applies a sigmoid of its own: no probability below 0.5 or above 0.73 can come out",
                f"remove the {last.lower()} from the network",
            )
        return None
    if call.name == "binary_cross_entropy":
        if scores.min() < 0 or scores.max() > 1:
            return (
                f"binary_cross_entropy gets {ranged(scores)}, no probabilities",
                "it takes the logarithm of its input and of 1 minus it",
                "use BCEWithLogitsLoss",
            )
        return None
    if scores.ndim < 2:
        return None
    rows = normalised(scores, 1, tolerance)
    if call.name == "kl_div":
        rows = rows or normalised(scores, -1, tolerance)
    columns = normalised(scores, 0, tolerance) if len(scores) > 1 and scores.shape[1] > 1 else None
    if columns is not None and rows is None:
        return (
            f"{call.name} gets {columns} over dim 0: the columns of {shape} sum to 1, and the rows do not",
            "each sample's scores depend on the other samples of its batch",
            "give the softmax dim=1",
        )
    if call.name == "kl_div":
        wrong = rows == "probabilities" or (rows is None and scores.ndim == 2)
        return log_expected(call, scores, rows) if wrong else None
    if call.name == "nll_loss":
        return None if rows == "log-probabilities" else log_expected(call, scores, rows)
    if scores.shape[1] == 1:
        return (
            f"cross_entropy gets one output for each sample ({shape})",
            "the softmax of a single output is 1 whatever it is: the loss is always 0",
            "give the network an output for each class, or use BCEWithLogitsLoss",
        )
    if rows == "probabilities" or last == "Sigmoid":
        made = "each row sums to 1" if rows else "the output of a sigmoid"
        return (
            f"cross_entropy gets probabilities and not logits: {ranged(scores)}, {made}",
            "it applies a softmax of its own: the loss cannot fall below that of a hesitant answer, and gradients fade",
            "remove the softmax (or sigmoid) from the network, or use NLLLoss on log_softmax",
        )
    share = float((scores == 0).float().mean())
    if scores.max() > 0 and scores.min() == 0 and (last == "Relu" or share > zeros):
        return (
            f"cross_entropy gets logits that are never negative: {ranged(scores)}, {share:.0%} of them exactly 0",
            "a ReLU cuts them: the network cannot say no, and cut logits have no gradient",
            "remove the ReLU after the last layer",
        )
    return None


def log_expected(call: CriterionCall, scores: Tensor, rows: str | None) -> tuple[str, str, str]:
    got = rows or "logits"
    return (
        f"{call.name} gets {got} and not log-probabilities: {ranged(scores)}",
        "it only picks the score of the right class: the loss can fall without bound and means no likelihood",
        "use log_softmax and not softmax" if rows else "use CrossEntropyLoss, or put log_softmax(dim=1) before it",
    )


def broadcast(call: CriterionCall) -> tuple[str, str, str] | None:
    """Tell of two shapes that give more differences than there are outputs."""
    try:
        common = torch.broadcast_shapes(call.input.shape, call.target.shape)
    except RuntimeError:
        return None
    if call.target.numel() == 1 or common.numel() <= call.input.numel():
        return None
    both = f"{shapes(call.input)} against {shapes(call.target)}"
    return (
        f"{call.name} gets {both}: broadcast to {'x'.join(map(str, common))}",
        "every output is compared with every target, and the best answer is the mean of all",
        "give both one shape: target.view_as(output), or output.squeeze(1)",
    )


def normalised(scores: Tensor, dim: int, tolerance: float) -> str | None:
    """Return "probabilities" or "log-probabilities" where the scores sum to 1 over `dim`."""
    if scores.min() >= 0 and bool(((scores.sum(dim) - 1).abs() < tolerance).all()):
        return "probabilities"
    if scores.max() <= tolerance and bool((scores.logsumexp(dim).abs() < tolerance).all()):
        return "log-probabilities"
    return None


def ranged(values: Tensor) -> str:
    return f"{float(values.min()):.4g} to {float(values.max()):.4g}"


def batch_size(batch: Any) -> int | None:
    """Return the first dimension that all tensors of a batch share, or None."""
    sizes = {len(tensor) for tensor in tensors(batch) if tensor.ndim}
    return sizes.pop() if len(sizes) == 1 and max(sizes) > 1 else None


def is_zero_start(name: str, parameter: Tensor) -> bool:
    """Whether a weight starts from zero, as heads, LoRA and the last scale of a residual branch do on purpose."""
    return not name.endswith("bias") and not parameter.detach().any()


def metrics(pl_module: LightningModule) -> Iterable[tuple[str, Metric]]:
    for path, module in pl_module.named_modules():
        if isinstance(module, Metric) and isinstance(getattr(module, "num_classes", None), int):
            yield path, module


def groups(names: list[str], trained: list[str]) -> list[tuple[str, list[str]]]:
    """Gather parameters under the outermost modules of which all trained parameters are among `names`."""
    chosen, found = set(names), []
    while chosen:
        name = next(name for name in names if name in chosen)
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            inside = [other for other in trained if other == path or other.startswith(f"{path}.")]
            if all(other in chosen for other in inside):
                break
        chosen -= set(inside)
        if path != inside[0]:  # a weight beside others that have gradients is not its module's failure
            found.append((path, inside))
    return found


def cells(row: ModuleCall) -> list[str]:
    sizes = ["" if size is None else f"{size:.3g}" for size in (row.smallest, row.largest)]
    output = row.output or "(raised)"
    return [row.path, row.type, row.input, output, row.dtype, row.device, *sizes, str(row.parameters or "")]


def aligned(rows: list[ModuleCall]) -> list[str]:
    """Return the table as lines of text, without the columns in which all rows are the same."""
    table = [list(COLUMNS), *(cells(row) for row in rows[:SHOWN])]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    same = {name for name in ("dtype", "device") if len({getattr(row, name) for row in rows if row.output}) == 1}
    kept = [index for index, name in enumerate(COLUMNS) if name not in same]
    lines = ["  ".join(line[index].ljust(widths[index]) for index in kept).rstrip() for line in table]
    if len(rows) > SHOWN:
        lines.append(f"... and {len(rows) - SHOWN} more")
    done = next((row for row in rows if row.output), None)
    if same and done is not None:
        lines.append(f"all outputs: {', '.join(getattr(done, name) for name in sorted(same, reverse=True))}")
    return lines


def markdown(rows: list[ModuleCall]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    return "\n".join(lines) + "\n"
