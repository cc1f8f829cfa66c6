from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    MOVED,
    SAMPLES,
    CriterionCall,
    Entrances,
    Example,
    Look,
    Small,
    Step,
    Tracer,
    compared,
    first_of,
    isolate_rng,
    leaves,
    look,
    replaced,
    seed_all,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

OTHERS = {"first": slice(1, None), "last": slice(None, -1)}  # the positions beside it


def detect(step: Step, limits: Limits) -> Hits:
    """Exchange all positions of each sequence but one for those of another sample."""
    looked, batch, is_judged = look(step), first_of(step.batch, SAMPLES), False
    known = compared(looked, batch)[1].calls
    for path, leaf in leaves(batch).items():
        if leaf.ndim not in (2, 3) or leaf.is_floating_point() != (leaf.ndim == 3) or leaf.is_complex():
            continue
        if bool((leaf == leaf[:, :1]).all()):
            continue  # what is known of a whole sample stands at each position
        other = leaf.roll(1, 0)

        def moves(to: Tensor, path: str = path) -> bool:
            return differ(known, compared(looked, replaced(batch, {path: to}))[1].calls, limits)

        if not known or leaf.shape[1] < limits.positions or not moves(other):
            continue
        is_judged = True
        for name, others in OTHERS.items():
            changed = leaf.clone()
            changed[:, others] = other[:, others]
            # The step itself may take positions out, as a curriculum of horizons does.
            if bool((changed != leaf).any()) and not moves(changed) and path in entered_whole(looked, batch):
                yield Hit(
                    f"the {name} of {leaf.shape[1]} positions of {path} decides alone about the answers: with all "
                    "others of another sample they are the same",
                    known[0].place.beside(loader="train_dataloader", note=path),
                )
    if not is_judged:
        raise CannotJudge("no sequence of so many positions enters the network and changes what a criterion is given")


@torch.no_grad()
def entered_whole(looked: Look, batch: Any) -> set[str]:
    """Return the places of sequences of which a layer gets all positions."""
    entrances, sequences = Entrances(), {path: leaf for path, leaf in leaves(batch).items() if leaf.ndim > 1}
    entrances.begin(batch)
    with isolate_rng(), Tracer(looked.module, entrances):
        seed_all()
        looked.loss_of(batch)
    return {e.leaf for e in entrances.found if e.leaf in sequences and sequences[e.leaf].shape[1] in e.value.shape}


def differ(known: list[CriterionCall], others: list[CriterionCall], limits: Limits) -> bool:
    if [call.input.shape for call in known] != [call.input.shape for call in others]:
        return True
    pairs = [(one.input, two.input) for one, two in zip(known, others, strict=True) if one.input.numel()]
    apart = [(one - two).abs().max() / one.abs().max() for one, two in pairs]
    return any(not share <= limits.answers_moved for share in apart)  # NaN is no number that stays the same


class OfSequences(Small):
    """Tells the class of a sequence by its first position; `leak` is the weight of the mean over all."""

    def __init__(self, leak: float = 0.0) -> None:
        super().__init__()
        self.leak = leak

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return self.head(hidden[:, 0] + self.leak * hidden.mean(1))


def sequences(length: int = 20) -> Any:
    return DataLoader(TensorDataset(torch.randn(32, length, 8), torch.arange(32) % 4), batch_size=16)


class OfFirst(Small):
    """Gets the first position alone, and others in later epochs."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs[:, 0])


class WithPlace(OfSequences):
    """Is told where each sequence was measured, at every position, and looks there once."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        inputs, places, labels = batch
        return self.loss(self(inputs) + places[:, 0, :4], labels)


def with_places() -> Any:
    places = torch.randn(32, 1, 8).expand(32, 20, 8)
    return DataLoader(TensorDataset(torch.randn(32, 20, 8), places, torch.arange(32) % 4), batch_size=16)


PROBE = Probe(
    question="Do other positions of a sequence than the first, or the last, have an effect on the answers?",
    why="what should sum up a sequence sees one position of it, such as the output of a recurrent layer at its first "
    "one, or one point where the maximum over all was meant",
    severity=WARNING,
    may_be_wrong="a network that predicts from the present state alone, though the batch has earlier ones",
    fix=Fix("take the mean or the maximum over the positions, or the output at the one that has seen all others"),
    thresholds={
        "answers_moved": replace(
            MOVED,
            faulty=Example(partial(OfSequences, 2e-4), sequences),
            healthy=Example(partial(OfSequences, 2e-3), sequences),
        ),
        "positions": Threshold(
            16,
            "from which on they are no channels, of which one may be chosen: an electrocardiogram has 12 leads, "
            "Sentinel-2 13 bands",
            faulty=Example(OfSequences, sequences),
            healthy=Example(OfSequences, partial(sequences, 10)),
        ),
    },
    detect=detect,
    faulty=Example(OfSequences, sequences),
    healthy=Example(partial(OfSequences, 1.0), sequences),
    also_healthy=(Example(partial(WithPlace, 1.0), with_places), Example(OfFirst, sequences)),
)
