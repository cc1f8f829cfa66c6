"""Sequences of tokens: whether answers know their targets, and whether padding changes anything."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from training_checklist.engines.batches import leaves, same
from training_checklist.engines.compared import Look, replaced
from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.replay import seed_all
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.sequences import MorePadding, OtherOrder, OwnTarget
from training_checklist.experiments.trace.targets import answered, scores
from training_checklist.finding import Place
from training_checklist.lightning import isolate_rng

ADDED = 2  # positions of padding: a table of positions may have no room for many
SHIFTS = (1, 0)  # the next token, and the token itself
LEAST = 20  # tokens that targets are known again by
KINDS = 5  # of tokens: of fewer, one sequence is easily like another one
AGREE = 0.9  # share of targets that are tokens of the same sequence: a corrupted part of them is no other task
MOVED = 1e-4  # relative, of answers in another arrangement of the same additions in float32
ATTENTION = {"multi_head_attention_forward", "scaled_dot_product_attention", "_transformer_encoder_layer_fwd"}
SHORTEST = 4  # tokens of which the first, which may stand for the whole, stays where it is
OVER_TIME = (nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.modules.batchnorm._BatchNorm)


def sequences(look: Look, step: Place, batch: Any) -> Iterator[OwnTarget | MorePadding | OtherOrder]:
    """Yield what other tokens, another order, and more padding do to the answers; `step` is the training step's place.

    Without dropout, and nothing where the step does not repeat.
    """
    look.module.eval()
    with ExitStack() as hooks:
        kinds: set[str] = set()
        for module in look.module.modules():
            if isinstance(module, OVER_TIME):
                add = module.register_forward_hook(lambda module, *_: kinds.add(type(module).__name__))
                hooks.callback(add.remove)
        loss, call = answered(look, batch)
    again, other = answered(look, batch)
    if loss != again or (call is None) is not (other is None):
        return
    if call is not None:
        yield from own_targets(look, batch, call)
        yield from other_orders(look, batch, call)
    for leaf, padded in more_padding(batch):
        other_loss, other = answered(look, padded)
        change = None if call is None or other is None else answers_change(leaf, batch, call, other)
        yield MorePadding(leaf, ADDED, loss, other_loss, change, sorted(kinds), step if call is None else call.place)


def own_targets(look: Look, batch: Any, call: CriterionCall) -> Iterator[OwnTarget]:
    for path, leaf in leaves(batch).items():
        shift = shift_of(leaf, call)
        if shift is None:
            continue
        targets = call.target.reshape(len(leaf), -1)
        position = leaf.shape[1] // 2
        changed = leaf.clone()
        changed[:, position] = leaf.roll(1, 0)[:, position]
        asked = position - shift
        rows = (changed[:, position] != leaf[:, position]) & (targets[:, asked] != call.ignored)
        _, other = answered(look, replaced(batch, {path: changed}))
        if rows.any() and other is not None and scores(other).shape == scores(call).shape:
            moved = differing(scores(call), scores(other)).reshape(targets.shape)[rows]
            sees, sees_next = bool(moved[:, asked].any()), bool(moved[:, position - 1].any())
            yield OwnTarget(path, shift, sees, sees_next, is_forced(look, batch, call, path), call.place)


class Attention(Listener):
    """Keeps where attention and embeddings of tokens were called."""

    def __init__(self) -> None:
        self.place = ""
        self.embedded: list[Tensor] = []

    def before(self, call: Call) -> None:
        if call.name in ATTENTION:
            self.place = self.place or str(call.place) or call.name
        elif call.name == "embedding" and call.is_functional:
            self.embedded.append(call.argument("input", 0))


def other_orders(look: Look, batch: Any, call: CriterionCall) -> Iterator[OtherOrder]:
    """Put the tokens of each sequence into another order, but for the first and padding; of one answer each."""
    attention = Attention()
    with torch.no_grad(), isolate_rng(), Tracer(look.module, attention):
        seed_all()
        look.loss_of(batch)
    for path, leaf in leaves(batch).items():
        if leaf.ndim != 2 or leaf.is_floating_point() or len(leaf.unique()) < KINDS or len(leaf) != len(call.input):
            continue
        if call.target.shape != leaf.shape[:1] or not any(same(leaf, each) for each in attention.embedded):
            continue
        whole = int((leaf.shape[1] - trailing(leaf)).min())
        turned = leaf.clone()
        turned[:, 1:whole] = leaf[:, 1:whole].flip(1)
        _, other = answered(look, replaced(batch, {path: turned}))
        if (
            whole >= SHORTEST
            and not same(turned, leaf)
            and other is not None
            and scores(other).shape == scores(call).shape
        ):
            yield OtherOrder(path, attention.place, bool(differing(scores(call), scores(other)).any()), call.place)


def is_forced(look: Look, batch: Any, call: CriterionCall, path: str) -> bool:
    """Whether answers change with a second sequence of the batch, where it or the one at `path` is the targets."""
    parts = leaves(batch)
    for name, leaf in parts.items():
        if name == path or leaf.ndim != 2 or leaf.is_floating_point() or len(leaf.unique()) < KINDS:
            continue
        _, other = answered(look, replaced(batch, {name: leaf.roll(1, 0)}))
        changes = other is not None and bool(differing(scores(call), scores(other)).any())
        if changes and (same(call.target, leaf) or same(call.target, parts[path])):
            return True
    return False


def shift_of(leaf: Tensor, call: CriterionCall) -> int | None:
    """Return by how many positions the tokens that are targets come later; None where no tokens of `leaf` are."""
    if leaf.ndim != 2 or leaf.is_floating_point() or len(leaf) < 2 or call.target.numel() % len(leaf):
        return None
    targets, length = call.target.reshape(len(leaf), -1), leaf.shape[1]
    found = []
    for shift in SHIFTS if targets.shape[1] in (length, length - 1) and len(leaf.unique()) >= KINDS else ():
        common = min(targets.shape[1], length - shift)
        asked = targets[:, :common]
        alike = (asked == leaf[:, shift : shift + common])[asked != call.ignored]
        if alike.numel() >= LEAST and float(alike.float().mean()) >= AGREE:
            found.append(shift)
    return found[0] if len(found) == 1 else None  # of one token again and again, either is true


def more_padding(batch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the place of each padded sequence, and the batch with more padding there, where it is known how."""
    parts = {path: leaf for path, leaf in leaves(batch).items() if leaf.ndim}
    tokens = [(path, leaf) for path, leaf in parts.items() if leaf.ndim == 2 and not leaf.is_floating_point()]
    done: set[str] = set()
    fillers: set[int] = set()
    for path, leaf in sorted(tokens, key=lambda each: -len(each[1].unique())):
        length, runs, filler = leaf.shape[1], trailing(leaf), int(leaf[:, -1].mode().values)
        if path in done or len(runs.unique()) < 2 or int(runs.min()) > 1 or is_word(leaf, runs):
            continue
        others = [each for name, each in parts.items() if name != path]
        # What fills up one sequence surely fills up the other one, too.
        if filler not in fillers and not any(confirms(each, runs, length) for each in others):
            continue
        if any(length in each.shape[2:] for each in parts.values()):
            return  # as of a mask of pairs: which way it goes on is not known
        longer = {name: with_more(each) for name, each in parts.items() if each.ndim > 1 and each.shape[1] == length}
        done |= set(longer)
        fillers.add(filler)
        yield path, replaced(batch, longer)


def trailing(leaf: Tensor) -> Tensor:
    """Return for each row of (B, T, ...) how many positions at its end have the value that most rows end with."""
    flat = leaf.reshape(len(leaf), leaf.shape[1], -1)
    filler = flat[:, -1, 0].mode().values
    return (flat == filler).all(2).long().flip(1).cumprod(1).sum(1)


def is_word(leaf: Tensor, runs: Tensor) -> bool:
    """Whether what rows of (B, T) end with stands before their ends, too: then it is a token like others."""
    before = torch.arange(leaf.shape[1], device=leaf.device) < (leaf.shape[1] - runs)[:, None]
    return bool((leaf[before] == leaf[:, -1].mode().values).any())


def confirms(leaf: Tensor, runs: Tensor, length: int) -> bool:
    """Whether another part of the batch ends where the sequences do: lengths, a mask, targets, further features."""
    if leaf.ndim == 1:
        return len(leaf) == len(runs) and bool((length - leaf == runs).all())
    if len(leaf) != len(runs) or leaf.shape[1] != length:
        return False
    return len((trailing(leaf) - runs).unique()) == 1


def with_more(leaf: Tensor) -> Tensor:
    filler = leaf.reshape(len(leaf), leaf.shape[1], -1)[:, -1, 0].mode().values
    return torch.cat([leaf, filler.expand(len(leaf), ADDED, *leaf.shape[2:]).to(leaf.dtype)], 1)


def answers_change(leaf: str, batch: Any, call: CriterionCall, other: CriterionCall) -> bool | None:
    """Whether answers are others, at positions that are no padding where there is one at each position."""
    one, two, tokens = scores(call), scores(other), leaves(batch)[leaf]
    if one.shape == two.shape:
        return bool(differing(one, two).any())
    rows = len(tokens)
    if one.shape[0] % rows or two.shape[0] - one.shape[0] != rows * ADDED:
        return None
    one, two = (each.reshape(rows, -1, each.shape[-1]) for each in (one, two))
    kept = one.shape[1]
    real = torch.arange(kept, device=one.device) < (kept - trailing(tokens).to(one.device))[:, None]
    return bool(differing(one, two[:, :kept])[real].any())


def differing(one: Tensor, other: Tensor) -> Tensor:
    """Return for each position, (..., classes), whether answers differ by more than rounding."""
    return (one - other).abs().amax(-1) > MOVED * one.abs().amax().clamp_min(1e-12)
