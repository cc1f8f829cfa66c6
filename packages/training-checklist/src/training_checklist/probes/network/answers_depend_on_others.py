from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics import Metric

from training_checklist.instruments import (
    CRITERIA,
    MOVED,
    OVER_TIME,
    SAMPLES,
    Call,
    Criteria,
    Example,
    Listener,
    Small,
    Step,
    Tracer,
    after_forward,
    as_in,
    batch_size,
    first_difference,
    isolate_rng,
    leaves,
    look,
    of_the_project,
    seed_all,
    tensors,
    train_split,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

# Operations that read neighbours, and at the end of a sequence its padding.
READ_NEIGHBOURS = ("conv", "max_pool", "avg_pool", "gru", "lstm", "rnn", "stft", "unfold", "pad", "interpolate")


@dataclass
class Seen:
    """What a step did with some samples.

    Args:
        answers: what was compared with targets, or what the last outermost module returned, (samples, numbers).
        operations: name, place and result of each that made floating-point numbers, where they are asked for.
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
    def __init__(self, seen: Seen, keeps: bool) -> None:
        self.seen, self.keeps = seen, keeps

    def after(self, call: Call) -> None:
        self.seen.packed |= call.name == "_pack_padded_sequence"
        for made in call.made if self.keeps and call.name not in CRITERIA else ():
            if made.ndim and made.is_floating_point():
                self.seen.operations.append((call.name, call.place, made))


def detect(step: Step, limits: Limits) -> Hits:
    """Show the network some samples together, and each alone, in eval mode.

    For batches that are more than samples one above the other: padded ones, and graphs. Of others
    `gradients/samples-mixed` tells.
    """
    split = train_split(step)
    with of_the_project("the dataset, asked for other samples,"), as_in(split.stage, step.trainer):
        items = list(split.items(split.chosen(SAMPLES)))
    # Each sample is loaded once, and what is drawn at random in the collate function or the step shows.
    together, again = (see(step, items, seed) for seed in (0, 1))
    if len(items) != SAMPLES or together.answers is None or again.answers is None:
        raise CannotJudge(f"no answers to {SAMPLES} samples are known")
    if again.answers.shape[1:] != together.answers.shape[1:] or not same_rows(again.answers, together.answers, limits):
        raise CannotJudge("the answers to the same samples are others each time")
    alone = [see(step, [item]) for item in items]
    if any(each.answers is None or each.answers.shape[1:] != together.answers.shape[1:] for each in alone):
        raise CannotJudge("the answers to a sample alone have another shape")
    shapes = together.shapes.items()
    padded = any(each.shapes.get(path) not in (None, shape) for path, shape in shapes for each in alone)
    if together.stacked and not padded:
        raise CannotJudge("batches are samples one above the other, of which the item gradients tells")
    apart = [each for each in alone if not same_rows(each.answers, together.answers, limits)]
    if not apart:
        return
    differs = next(item for item, each in zip(items, alone, strict=True) if each is apart[0])
    ways = (see(step, given, with_operations=True).operations for given in ([differs], items))
    first = first_difference(*ways, lambda one, two: agree(one, two, limits))
    known = first is not None and first.one is not None
    operation, place = first.one[:2] if known else ("", split.place_of("collate_fn"))
    told = known and (together.packed or not any("Conv" not in kind for kind in together.over_time))
    if padded and (operation.startswith(READ_NEIGHBOURS) or (together.over_time and not told)):
        over_time = sorted(together.over_time) or [operation]
        raise CannotJudge(f"{', '.join(over_time)} may read padding on purpose")
    named = f"; the first operation that tells them apart is {operation}" if operation else ""
    by_place = len(apart) == SAMPLES - 1 and apart[0] is alone[1]
    placed = " (not the first: a parameter may have an entry for each place in the batch)" if by_place else ""
    yield Hit(
        f"{len(apart)} of {SAMPLES} samples{placed} are answered otherwise among others than alone, in eval "
        f"mode{named}; the batch is made in {split.place_of('collate_fn')}",
        place,
    )


@torch.no_grad()
def see(step: Step, items: list[Any], seed: int = 0, with_operations: bool = False) -> Seen:
    found, criteria, returned, looked, split = Seen(), Criteria(), [], look(step), train_split(step)
    with isolate_rng(), ExitStack() as hooks:
        for module in looked.module.modules():
            hooks.callback(after_forward(module, kept(found, returned, looked.module)).remove)
        seed_all(seed)
        with of_the_project("the collate function, asked for other samples,"), as_in(split.stage, step.trainer):
            batch = split.batch_of(deepcopy(items), step.trainer)
        found.stacked = batch_size(batch) == len(items)
        known = leaves(batch).items()
        found.shapes = {path: leaf.shape[1:] for path, leaf in known if leaf.ndim and len(leaf) == len(items)}
        with Tracer(looked.module, criteria, Operations(found, with_operations)):
            looked.loss_of(batch)
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


def same_rows(alone: Tensor, together: Tensor, limits: Limits) -> bool:
    """Whether each row of a result is among those of the batch: a collate function may put samples into an order."""
    some, rows = (each.flatten(1) if each.ndim > 1 else each[:, None] for each in (alone, together))
    apart = torch.stack([(row - rows).abs().amax(1).min() for row in some])
    return bool((apart <= limits.answers_moved * rows.abs().amax().clamp_min(1e-12)).all())


def agree(one: tuple[str, Place, Tensor], two: tuple[str, Place, Tensor], limits: Limits) -> bool:
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
    return alone.shape[1:] != together.shape[1:] or same_rows(alone, together, limits)


def nodes() -> DataLoader:
    """Load graphs of 2 to 4 nodes without edges, one after the other; the target is a sum over the nodes."""
    graphs = [torch.randn(2 + index % 3, 8) for index in range(16)]

    def collate(some: list[Tensor]) -> dict[str, Tensor]:
        owner = torch.repeat_interleave(torch.arange(len(some)), torch.tensor([len(each) for each in some]))
        return {"x": torch.cat(some), "owner": owner, "y": torch.stack([each[:, 0].sum() for each in some])}

    return DataLoader(graphs, batch_size=8, collate_fn=collate)


class Graphs(Small):
    """Adds up nodes of each graph; `others` is the weight of a mean over the nodes of all graphs of the batch."""

    def __init__(self, others: float) -> None:
        super().__init__()
        self.others = others

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        hidden = torch.relu(self.first(batch["x"]))
        hidden = hidden + self.others * hidden.mean(0)
        whole = hidden.new_zeros(len(batch["y"]), 16).index_add(0, batch["owner"], hidden)
        return (self.head(whole)[:, 0] - batch["y"]).square().mean()


PROBE = Probe(
    question="Does a sample get the same output alone and in a batch with other samples?",
    why="other samples of the batch take part in its output: nodes of another graph, padding to the length of the "
    "longest one, a sum over the whole batch",
    severity=WARNING,
    may_be_wrong="attention across samples, retrieval within a batch and losses of pairs let samples see one another "
    "on purpose",
    fix=Fix("count indices of nodes on from sample to sample in the collate function, and add up within samples only"),
    thresholds={
        "answers_moved": replace(
            MOVED, faulty=Example(lambda: Graphs(1e-3), nodes), healthy=Example(lambda: Graphs(1e-4), nodes)
        )
    },
    detect=detect,
    faulty=Example(lambda: Graphs(1.0), nodes),
    healthy=Example(lambda: Graphs(0.0), nodes),
)
