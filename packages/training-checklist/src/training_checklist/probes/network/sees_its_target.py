from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader

from training_checklist.instruments import (
    MOVED,
    CriterionCall,
    Example,
    Reader,
    Step,
    answered,
    answers,
    differences,
    is_whole,
    leaves,
    look,
    replaced,
    same,
    scores,
    texts,
)
from training_checklist.probe import REMARK, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

SHIFTS = (1, 0)  # the next token, and the token itself


def detect(step: Step, limits: Limits) -> Hits:
    """Exchange a token of each sequence for another one, and see whether the answer changes whose target it is."""
    seen = answers(step)
    call, judged = seen.classification(), False
    for path, leaf in leaves(seen.batch).items():
        shift = shift_of(leaf, call, limits)
        if shift is None:
            continue
        targets, position = call.target.reshape(len(leaf), -1), leaf.shape[1] // 2
        changed = leaf.clone()
        changed[:, position] = leaf.roll(1, 0)[:, position]
        asked = position - shift
        rows = (changed[:, position] != leaf[:, position]) & (targets[:, asked] != call.ignored)
        other = answered(look(step), replaced(seen.batch, {path: changed}))[1]
        if not rows.any() or other is None or scores(other).shape != scores(call).shape:
            continue
        judged = True
        moved = (differences(scores(call), scores(other)) > limits.answers_moved).reshape(targets.shape)[rows]
        sees, sees_next = bool(moved[:, asked].any()), bool(moved[:, position - 1].any())
        place = call.place.beside(loader="train_dataloader", note=path)
        if shift and sees:
            yield Hit(
                f"the target of a position is the next token of {path}, and the answer there changes with that very "
                "token",
                place,
                # A network may encode what a decoder is to answer, as that of a posterior does.
                severity=REMARK if is_forced(step, call, path, shift, limits) else None,
            )
            return
        elif not shift and sees and not sees_next:  # else a text is encoded as a whole and decoded again
            yield Hit(
                f"the target of a position is the token of {path} that stands there, which the network sees, and none "
                "after it",
                place,
                "it copies what it is given: nothing has to be predicted",
                Fix("shift by one: logits[:, :-1] against tokens[:, 1:], or so in the collate function"),
                REMARK if is_forced(step, call, path, shift, limits) else None,
            )
            return  # another place may hold the very same tensor
        elif not shift and sees and len(leaf[targets == call.ignored].unique()) >= limits.kinds_of_tokens:
            yield Hit(
                f"the target of a position is the token of {path} that stands there, which the network sees, at the "
                "positions that count: others, which hold tokens as well, are ignored",
                place,
                "it copies what it is given: of a hidden token it is to say which one it is, and not that it is hidden",
                Fix("take the targets from the tokens before some are hidden: labels = tokens.clone()"),
            )
            return
    if not judged:
        raise CannotJudge("the targets are no tokens of a sequence in the batch")


def is_forced(step: Step, call: CriterionCall, path: str, shift: int, limits: Limits) -> bool:
    """Whether answers change with a second sequence of the batch, where it or the one at `path` is the targets.

    Beside targets that are not shifted, the second one must hold them, too: the text that is translated does not.
    """
    batch = answers(step).batch
    parts = leaves(batch)
    for name, leaf in parts.items():
        if leaf.ndim != 2 or not is_whole(leaf) or len(leaf.unique()) < limits.kinds_of_tokens:
            continue
        if same(leaf, parts[path]):  # itself, or the same tensor in another place
            continue
        other = answered(look(step), replaced(batch, {name: leaf.roll(1, 0)}))[1]
        changes = other is not None and bool((differences(scores(call), scores(other)) > limits.answers_moved).any())
        among = same(call.target, leaf) or same(call.target, parts[path])
        if changes and (among if shift else shift_of(leaf, call, limits) is not None):
            return True
    return False


def shift_of(leaf: Tensor, call: CriterionCall, limits: Limits) -> int | None:
    """Return by how many positions the tokens that are targets come later; None where no tokens of `leaf` are."""
    if leaf.ndim != 2 or not is_whole(leaf) or len(leaf) < 2 or call.target.numel() % len(leaf):
        return None
    targets, length, found = call.target.reshape(len(leaf), -1), leaf.shape[1], []
    if targets.shape[1] not in (length, length - 1) or len(leaf.unique()) < limits.kinds_of_tokens:
        return None
    for shift in SHIFTS:
        common = min(targets.shape[1], length - shift)
        asked = targets[:, :common]
        alike = (asked == leaf[:, shift : shift + common])[asked != call.ignored]
        if alike.numel() >= limits.known_tokens and float(alike.float().mean()) >= limits.tokens_agree:
            found.append(shift)
    return found[0] if len(found) == 1 else None  # of one token again and again, either is true


class Given(Reader):
    """Is given its targets beside the tokens."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return functional.cross_entropy(self(batch["tokens"]).flatten(0, 1), batch["next"].flatten())


def given(rows: int = 16, kinds: int = 31, wrong: float = 0.0) -> Example:
    """Return one that sees the next token.

    Args:
        rows: of 8 tokens.
        kinds: of tokens.
        wrong: share of the targets that are others.
    """

    def loader() -> DataLoader:
        text = torch.arange(rows * 9).view(rows, 9) * 7 % 61 % kinds
        targets = text[:, 1:].clone().flatten()
        targets[: round(wrong * len(targets))] += 1
        pairs = zip(text[:, :-1], targets.view(rows, 8), strict=True)
        return DataLoader([{"tokens": tokens, "next": each} for tokens, each in pairs], batch_size=rows)

    return Example(lambda: Given(leak=1.0), loader)


def filled_in() -> Example:
    """Return one that fills in every fourth token, whose targets are taken after it was hidden."""

    def loader() -> DataLoader:
        tokens = torch.arange(16 * 8).view(16, 8) * 7 % 61 % 31
        counts = torch.arange(16 * 8).view(16, 8) % 4 == torch.arange(16).unsqueeze(1) % 4
        seen = tokens.masked_fill(counts, 31)
        targets = seen.masked_fill(~counts, -100)
        return DataLoader([{"tokens": one, "next": other} for one, other in zip(seen, targets, strict=True)], 16)

    return Example(lambda: Given(leak=1.0), loader)


PROBE = Probe(
    question="Are the tokens that the network predicts hidden from it (by a causal mask, by shifted targets)?",
    why="it copies the answer from its input; where text is generated there is nothing to copy",
    fix=Fix(
        "let no position see a later one: a causal mask in every layer of attention, padding of convolutions on "
        "the left only, recurrent layers in one direction"
    ),
    thresholds={
        "answers_moved": replace(
            MOVED, faulty=Example(lambda: Reader(leak=5e-4), texts), healthy=Example(lambda: Reader(leak=5e-5), texts)
        ),
        "known_tokens": Threshold(
            20,
            "targets that are compared with tokens: two of 5 kinds agree by chance in one of 5 places, and so in 9 of "
            "10 of 20 places in none of a billion batches",
            factor=1.5,
            faulty=given(rows=3),  # 24 of them
            healthy=given(rows=2),  # 16
        ),
        "kinds_of_tokens": Threshold(
            5,
            "different ids: masks, labels of yes and no and the four letters of genomes are fewer, and one such row is "
            "easily like another one",
            factor=1.5,
            faulty=given(kinds=6),
            healthy=given(kinds=4),
        ),
        "tokens_agree": Threshold(
            0.9,
            "share of targets that are tokens of the same sequence: a language model that fills in 15 % of hidden "
            "tokens is another task, and marks of the ends of sentences are 1 token in 20",
            factor=1.08,
            faulty=given(wrong=0.07),
            healthy=given(wrong=0.13),
        ),
    },
    detect=detect,
    faulty=Example(lambda: Reader(leak=1.0), texts),
    also_faulty=(filled_in(),),
    healthy=Example(Reader, texts),
)
