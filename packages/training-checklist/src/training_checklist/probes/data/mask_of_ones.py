from collections.abc import Mapping

import torch
from torch import Tensor

from training_checklist.instruments import (
    SAMPLES,
    Data,
    MappedDataset,
    Tagger,
    filled,
    leaves,
    on_datasets,
    tagged,
    trailing,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    few = data.seen.first
    if data.loaders and data.loaders[0].indexable:
        few = data.loaders[0].spread(SAMPLES, data.trainer)
    known = leaves(few)
    entering = {place: padding(known[place], limits.min_lengths) for place in data.roles.inputs if place in known}
    padded = {place: left_out for place, left_out in entering.items() if left_out is not None}
    if not padded:
        raise CannotJudge("no input is a sequence that is padded to the length of others")
    for place, left_out in padded.items():
        names = [
            name
            for name, leaf in known.items()
            if leaf.shape == left_out.shape and name != data.roles.target and bool((leaf == 1).all())
        ]
        if not any(tells(leaf, left_out) for leaf in known.values()):
            lengths = left_out.shape[1] - left_out.sum(1)
            for name in names:
                yield Hit(
                    f"{name} is 1 everywhere, and the {len(lengths)} sequences of {place} that were looked at are "
                    f"{int(lengths.min())} to {int(lengths.max())} long, padded to {left_out.shape[1]}",
                    data.train.place.beside(note=name),
                )


def padding(sequences: Tensor, min_lengths: float) -> Tensor | None:
    """Return where sequences, (N, T) or (N, T, ...), are filled up at one end, (N, T), or None.

    What fills them up stands nowhere else: else it may be part of them.

    Args:
        min_lengths: that fillings must have.
    """
    if sequences.ndim < 2 or sequences.is_complex():
        return None
    for turned in (sequences, sequences.flip(1)):
        runs, left_out = trailing(turned), filled(turned)
        lengths = runs[runs > 1].unique()  # one position may be a mark at the end
        if len(lengths) >= min_lengths and torch.equal(runs, left_out.sum(1)) and int(runs.max()) < sequences.shape[1]:
            return left_out if turned is sequences else left_out.flip(1)
    return None


def tells(leaf: Tensor, left_out: Tensor) -> bool:
    """Whether a tensor of a batch says where its padding is: a mask, or the length of each sequence."""
    if leaf.ndim == 1:
        return len(leaf) == len(left_out) and bool((leaf == (~left_out).sum(1)).all())
    is_mask = leaf.shape == left_out.shape and bool(((leaf == 0) | (leaf == 1)).all())
    return is_mask and (torch.equal(leaf == 1, left_out) or torch.equal(leaf == 0, left_out))


class Masked(Tagger):
    def training_step(self, batch: Mapping[str, Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch["tokens"]) * batch["mask"][:, None], batch["labels"])

    def validation_step(self, batch: Mapping[str, Tensor], batch_idx: int) -> None:
        self.training_step(batch, batch_idx)


def padded(mask: bool = True, lengths: int = 6) -> MappedDataset:
    """Fill texts of so many lengths, from five tokens on, up to twelve; the mask leaves out the filling, or nothing."""

    def fill(index: int, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
        filling = torch.arange(12) >= 5 + index % lengths
        kept = ~filling if mask else torch.ones_like(filling)
        return {"tokens": tokens.masked_fill(filling, 0), "mask": kept.long(), "labels": labels}

    return MappedDataset(fill, tagged())


PROBE = Probe(
    question="Do the masks of a batch leave out the padding of its sequences?",
    why="padding counts as if it were part of the sequence: in attention, in means over time and in the loss",
    severity=WARNING,
    fix=Fix("make the mask of the padded sequence, in the collate function: mask = tokens != padding"),
    detect=detect,
    thresholds={
        "min_lengths": Threshold(
            3,
            "of padding: one or two may be how sequences of a kind end",
            healthy=on_datasets(lambda: padded(mask=False, lengths=2), padded, module=Masked),
        )
    },
    faulty=on_datasets(lambda: padded(mask=False), padded, module=Masked),
    healthy=on_datasets(padded, padded, module=Masked),
)
