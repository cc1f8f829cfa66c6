import inspect
import math
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import (
    ACTIVATIONS,
    GIB,
    OF_PARAMETERS,
    LightningModule,
    MemoryUse,
    NoWorkers,
    Peak,
    combined,
    in_bytes,
    isolate_rng,
    once,
    predict,
    samples_of,
)
from training_checklist.probe import FAILED, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

FAR = 5.0  # seconds that the prediction for a batch which fills the budget may take


def detect(use: MemoryUse, limits: Limits) -> Hits:
    peak, raw, fits = predicted(use)
    if peak.bytes <= use.room:
        return
    kind, most = max(peak.parts.items(), key=lambda part: part[1])
    owner = largest_owner(use.pl_module) if kind in OF_PARAMETERS else ""
    module = peak.largest_module() if kind == ACTIVATIONS else owner
    assumed = ", which is assumed: say what your accelerator has" if use.assumed else ""
    yield Hit(
        f"predicted peak {in_bytes(peak.bytes)} + {use.overhead_gb:g} GiB overhead exceeds the budget of "
        f"{use.budget_gb:g} GiB{assumed}; largest part: {kind}{f' of {module}' if module else ''}, {in_bytes(most)}\n"
        f"{shares(peak)}",
        Place(module=module or type(use.pl_module).__name__),
        fix=remedies(use, raw, peak, fits),
        severity=WARNING if use.assumed else FAILED,
    )


@once
def predicted(use: MemoryUse) -> tuple[Peak, Any, int | None]:
    """Return the peak of a step, its batch, and how many samples would fill the budget."""
    if not use.pl_module.automatic_optimization:
        raise not_predicted(use, "its training_step steps the optimizers itself")
    with isolate_rng(), NoWorkers():
        raw, _, _ = next(iter(combined(use.trainer.fit_loop._data_source.dataloader())))
    try:
        peak = predict(use.pl_module, use.trainer, raw)
    except Exception as error:  # of a step that asks for values, which the prediction has not
        use.facts["not_predicted"] = f"{type(error).__name__}: {error}"
        raise not_predicted(use, "what a step does depends on values in the batch or the weights") from error
    fits = largest_batch(use, raw, peak)
    use.facts |= {"predicted_gb": peak.bytes / GIB, "budget_gb": use.budget_gb, "largest_batch": fits}
    use.facts |= {"parts_bytes": peak.parts, "stages_bytes": peak.stages, "activations_bytes": peak.modules}
    use.said.append(f"predicted peak {in_bytes(peak.bytes)} of {use.budget_gb:g} GiB: {shares(peak)}")
    use.said += [] if fits is None else [f"a batch of about {rounded(fits)} would fill it"]
    return peak, raw, fits


def not_predicted(use: MemoryUse, reason: str) -> CannotJudge:
    use.said.append(f"no prediction: {reason}")
    return CannotJudge(f"no peak was predicted: {reason}")


def changed(use: MemoryUse, raw: Any, **change: Any) -> Peak | None:
    """Return the peak with a change, None where it does not work: how to double some batches is not known."""
    try:
        return predict(use.pl_module, use.trainer, raw, **change)
    except Exception:
        return None


def largest_batch(use: MemoryUse, raw: Any, peak: Peak) -> int | None:
    """Return how many samples fill the budget: by a line from this batch's peak to twice that batch's.

    Of each stage of a step by itself: with few samples the optimizer's part is the largest, with more of them that of
    the activations. What that gives is predicted too. Where it does not lie on the line, the peak grows with a power of
    the batch, as where samples are compared with one another.
    """
    samples, began = samples_of(raw), time.monotonic()
    twice = changed(use, raw, times=2)
    spent = time.monotonic() - began
    if not samples or twice is None:
        return None
    growth = {stage: (twice.stages.get(stage, 0) - most) / samples for stage, most in peak.stages.items()}
    lines = [
        (samples + (use.room - peak.stages[stage]) / each, stage, each) for stage, each in growth.items() if each > 0
    ]
    if not lines:
        return None
    filled, stage, each = min(lines)
    fits = max(int(filled), 0)
    # A network that goes through the batch step by step takes as many times as long.
    times = min(fits // samples, max(int(2 * FAR / spent), 4))
    if times <= 2:
        return fits
    fixed, far = peak.stages[stage] - each * samples, changed(use, raw, times=times)
    if far is None:
        return None
    power = math.log((far.stages[stage] - fixed) / (twice.stages[stage] - fixed)) / math.log(times / 2)
    return int(samples * times * ((use.room - fixed) / (far.stages[stage] - fixed)) ** (1 / power))


def remedies(use: MemoryUse, raw: Any, peak: Peak, fits: int | None) -> Fix:
    """Return the overrides with which it fits, and further ways out with the peaks that are predicted for them."""
    overrides, ways, samples = (), [], samples_of(raw)
    if fits:
        parts = 2
        while samples // parts > fits:
            parts *= 2
        accumulated = parts * use.trainer.accumulate_grad_batches
        overrides = (f"data.batch_size={samples // parts}", f"trainer.accumulate_grad_batches={accumulated}")
        ways.append(f"these are the same optimizer steps; {rounded(fits)} samples fit")
    elif fits == 0:
        ways.append("a smaller network, or an optimizer with less state: not even one sample fits")
    blocks = activation_blocks(use.pl_module, peak)
    for way, change in (
        ("trainer.precision=bf16-mixed", {"precision": torch.bfloat16}),
        (checkpointing(use.pl_module, blocks), {"recomputed": tuple(blocks)}),
    ):
        less = changed(use, raw, **change) if way else None
        if less is not None and less.bytes < peak.bytes:
            ways.append(f"{way}: {in_bytes(less.bytes)}")
    enough = math.ceil(peak.bytes / GIB + use.overhead_gb)
    ways.append(f"callbacks.debug_memory.budget_gb={enough}, if the accelerator has that")
    return Fix("; ".join(ways), overrides)


def activation_blocks(pl_module: LightningModule, peak: Peak) -> list[str]:
    """Return the innermost modules with parts of their own in which activations are made."""
    makes = {path.rpartition(".")[0] for path in peak.modules} | set(peak.modules)
    return [
        path
        for path, module in pl_module.named_modules()
        if path in makes and len(list(module.modules())) == 1 + len(list(module.children())) > 1 and path
    ]


def checkpointing(pl_module: LightningModule, blocks: list[str]) -> str:
    """Return how to have the activations of some modules recomputed, "" of none."""
    if not blocks:
        return ""
    if "checkpoint_stages" in inspect.signature(type(pl_module).__init__).parameters:
        return f"'model.checkpoint_stages=[{','.join(path.removeprefix('net.') for path in blocks)}]'"
    return f"x = torch.utils.checkpoint.checkpoint({blocks[0]}, x, use_reentrant=False) for {', '.join(blocks[:4])}"


def largest_owner(pl_module: LightningModule) -> str:
    """Return the module that holds more than half of all parameters itself, or ""; gradients and states go with it."""
    counts = {path: sum(p.numel() for p in m.parameters(recurse=False)) for path, m in pl_module.named_modules()}
    largest = max(counts, key=counts.get)
    return largest if 2 * counts[largest] > sum(counts.values()) else ""


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


def expanded(to: int, answers: Tensor, labels: Tensor) -> Tensor:
    """Return a loss that has each answer so many times over, each with a value of its own."""
    return functional.cross_entropy(answers[..., None].expand(-1, -1, to).exp().mean(2), labels)


PROBE = Probe(
    question="Does a training step fit into the accelerator's memory?",
    why="training ends with 'out of memory' on such an accelerator; the overhead is its context, workspaces of kernels "
    "and fragmentation, which are not predicted",
    fix=Fix("a smaller batch, or a larger accelerator"),
    detect=detect,
    faulty=partial(expanded, 10_000_000),
    healthy=partial(expanded, 10_000),
)
