import time
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from training_checklist.instruments import LEAST, Data, Example, Tagger, by_index, on_datasets
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

TEXTS = 200


def detect(data: Data, limits: Limits) -> Hits:
    """See how long texts are before they are padded; of those that have one length nothing is known."""
    split, lengths = by_index(data.train), {}
    for index in split.chosen(TEXTS):
        if time.monotonic() > data.until:
            break
        for part, value in enumerate(tree_leaves(split.items([index]))):
            if isinstance(value, Tensor) and value.ndim == 1 and not value.is_floating_point():
                lengths.setdefault(part, []).append(len(value))
        if not lengths:  # images are no texts: none of them is worth loading
            break
    known = max(lengths.values(), key=len, default=[])
    if len(known) < LEAST or len(set(known)) < limits.least_lengths:
        raise CannotJudge("samples are no texts of several lengths")
    longest, cut = max(known), known.count(max(known))
    shorter = [length for length in known if length < longest]
    if cut > limits.max_cut * len(known) and fmean(shorter) < limits.alike_in_length * longest:
        yield Hit(
            f"{cut} of {len(known)} texts have {longest} tokens, and none has more: they are cut there",
            split.place_of("__getitem__"),
        )


def cut(number: int, others: int = 8, least: int = 4) -> Example:
    """Return 100 texts, of which so many have the greatest length, and the rest one of some others."""

    def texts() -> list[Tensor]:
        return [torch.randint(1, 100, (12 if index < number else least + index % others,)) for index in range(100)]

    def collate(samples: list[Tensor]) -> list[Tensor]:
        padded = pad_sequence(samples, batch_first=True)
        return [padded, padded % 4]

    return on_datasets(*[lambda: DataLoader(texts(), 16, collate_fn=collate)] * 2, module=Tagger)


PROBE = Probe(
    question="Are most texts shorter than the maximum length, so that they are not truncated?",
    why="what stands behind the cut is neither learnt nor measured, and its labels are lost without a warning",
    severity=WARNING,
    fix=Fix("a greater length, or windows of each text; see how long texts are before they are cut"),
    detect=detect,
    faulty=cut(80),
    healthy=cut(30),
    thresholds={
        "max_cut": Threshold(0.5, "of the texts: then the median text is one that is cut, and not an exception"),
        "least_lengths": Threshold(
            3,
            "different lengths: texts of two templates have two, and the longest is none that is cut",
            factor=1.5,
            faulty=cut(80, others=3),
            healthy=cut(80, others=1),
        ),
        "alike_in_length": Threshold(
            0.85,
            "of the greatest length, which shorter texts have on average: those of one template are all about as long",
            factor=1.1,
            faulty=cut(80, others=3, least=9),
            healthy=cut(80, others=2, least=10),
        ),
    },
)
