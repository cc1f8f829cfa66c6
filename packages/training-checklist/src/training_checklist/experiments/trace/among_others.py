"""Samples that come alone, and the same ones among others: whether the network answers them alike.

For batches that are more than samples one above the other: padded ones, and graphs. Of others `sample_leak` tells.
"""

from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from training_checklist.engines.batches import batch_size, leaves, tensors
from training_checklist.engines.compared import SAMPLES, Look
from training_checklist.engines.criteria import CRITERIA, Criteria
from training_checklist.engines.first_difference import first_difference
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split, as_in
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.network import AmongOthers
from training_checklist.experiments.trace.sequences import MOVED, OVER_TIME
from training_checklist.finding import Place
from training_checklist.lightning import Trainer, isolate_rng

# Operations that read neighbours, and at the end of a sequence its padding.
READ_NEIGHBOURS = ("conv", "max_pool", "avg_pool", "gru", "lstm", "rnn", "stft", "unfold", "pad", "interpolate")
ROWS = 4  # of an operation's results that are looked for among those of the batch


@dataclass
class Seen:
    """What a step did with some samples.

    Args:
        answers: what was compared with targets, or what the last outermost module returned, (samples, numbers).
        operations: name, place and result of each that made floating-point numbers.
        stacked: whether all tensors of the batch have one entry for each sample.
        shapes: of the tensors that do, without that dimension, by their place.
        over_time: types of the layers that read neighbours.
        packed: whether sequences were packed, so that recurrent layers read no padding.
    """

    answers: Tensor | None = None
    operations: list[tuple[str, Place, Tensor]] = field(default_factory=list)
    stacked: bool = True
    shapes: dict[str, torch.Size] = field(default_factory=dict)
    over_time: set[str] = field(default_factory=set)
    packed: bool = False


class Operations(Listener):
    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def after(self, call: Call) -> None:
        self.seen.packed |= call.name == "_pack_padded_sequence"
        for made in call.made if call.name not in CRITERIA else ():
            if made.ndim and made.is_floating_point():
                self.seen.operations.append((call.name, call.place, made))


def among_others(look: Look, split: Split, trainer: Trainer) -> AmongOthers | None:
    """Show the network some samples together, and each alone; None where that cannot be compared.

    In eval mode. Each sample is loaded once, and what is drawn at random in the collate function or the step shows.
    """
    chosen = split.chosen(SAMPLES)
    with as_in(split.stage, trainer):
        items = list(split.items(chosen))
    look.module.eval()
    together, again = (seen(look, split, trainer, items, seed) for seed in (0, 1))
    if len(items) != SAMPLES or together.answers is None or again.answers is None:
        return None
    largest = together.answers.abs().amax()
    # Answers that are all one tell nothing.
    differ = bool(((together.answers - together.answers[:1]).abs().amax() > 100 * MOVED * largest).item())
    if not same_rows(again.answers, together.answers) or not differ:
        return None
    alone = [seen(look, split, trainer, [item]) for item in items]
    if any(each.answers is None or each.answers.shape[1:] != together.answers.shape[1:] for each in alone):
        return None
    shapes = together.shapes.items()
    padded = any(each.shapes.get(path) not in (None, shape) for path, shape in shapes for each in alone)
    if together.stacked and not padded:
        return None
    apart = [each for each in alone if not same_rows(each.answers, together.answers)]
    found = AmongOthers(SAMPLES, len(apart), collated=split.place_of("collate_fn"))
    if apart:
        first = first_difference(apart[0].operations, together.operations, agree)
        known = first is not None and first.one is not None
        found.operation, found.place = first.one[:2] if known else ("", found.collated)
        told = known and (together.packed or not any("Conv" not in kind for kind in together.over_time))
        if padded and (found.operation.startswith(READ_NEIGHBOURS) or (together.over_time and not told)):
            found.over_time = sorted(together.over_time) or [found.operation]
    return found


@torch.no_grad()
def seen(look: Look, split: Split, trainer: Trainer, items: list[Any], seed: int = 0) -> Seen:
    found, criteria, returned = Seen(), Criteria(), []
    with isolate_rng(), ExitStack() as hooks:
        for module in look.module.modules():
            hooks.callback(module.register_forward_hook(kept(found, returned, look.module)).remove)
        seed_all(seed)
        with as_in(split.stage, trainer):
            batch = split.batch_of(deepcopy(items), trainer)
        found.stacked = batch_size(batch) == len(items)
        known = leaves(batch).items()
        found.shapes = {path: leaf.shape[1:] for path, leaf in known if leaf.ndim and len(leaf) == len(items)}
        with Tracer(look.module, criteria, Operations(found)):
            look.loss_of(batch)
    for answers in [*([call.input] for call in criteria.calls), *reversed(returned)]:
        rows = [each.float() for each in answers if each.is_floating_point() and each.ndim and len(each) == len(items)]
        if rows:
            found.answers = torch.cat([each.reshape(len(items), -1) for each in rows], 1)
            break
    return found


def kept(found: Seen, returned: list[list[Tensor]], root: nn.Module) -> Any:
    """Return a hook that keeps what outermost modules return, and which layers read neighbours."""
    outermost = {id(module) for module in (root, *root.children()) if not isinstance(module, Metric)}

    def hook(module: nn.Module, given: Any, answer: Any) -> None:
        if isinstance(module, OVER_TIME):
            found.over_time.add(type(module).__name__)
        if id(module) in outermost:
            returned.append(list(tensors(answer)))

    return hook


def same_rows(alone: Tensor, together: Tensor) -> bool:
    """Whether each row of a result is among those of the batch: a collate function may put samples into an order."""
    some = alone[:ROWS].flatten(1) if alone.ndim > 1 else alone[:ROWS, None]
    rows = together.flatten(1) if together.ndim > 1 else together[:, None]
    apart = (some[:, None] - rows[None]).abs().amax(2).amin(1)
    return bool((apart <= MOVED * rows.abs().amax().clamp_min(1e-12)).all())


def agree(one: tuple[str, Place, Tensor], two: tuple[str, Place, Tensor]) -> bool:
    """Whether an operation made the same of samples, as far as that can be told; of padded ones, before the padding."""
    (name, _, alone), (other, _, together) = one, two
    if name != other:
        return False
    if alone.ndim != together.ndim or not alone.numel() or not together.numel() or len(alone) > len(together):
        return True
    longer = [dim for dim in range(1, alone.ndim) if alone.shape[dim] != together.shape[dim]]
    if len(longer) == 1 and len(alone) == 1 and len(together) == SAMPLES:
        [dim] = longer
        size = min(alone.shape[dim], together.shape[dim])
        alone, together = alone.narrow(dim, 0, size), together.narrow(dim, 0, size)
    return alone.shape[1:] != together.shape[1:] or same_rows(alone, together)
