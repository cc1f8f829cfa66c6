from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    RAISED,
    Data,
    Outside,
    Tagger,
    is_left_out,
    on_datasets,
    outside,
    part,
    tagged,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    name, found = data.seen.tokens_outside or beyond_the_batches(data)
    if found is not None:
        named = ", ".join(map(str, found.wrong[:5]))
        yield Hit(
            f"index {named} in {name}, but the embedding that it enters has {found.number} rows "
            f"(0..{found.number - 1}); {found.count} of {found.of} indices are outside",
            found.place,
        )


def beyond_the_batches(data: Data) -> tuple[str, Outside | None]:
    for split in data.alike if data.error is None else ():
        own = part(data, split)
        for place, rows in data.roles.tables.items():
            found = None
            if place in own.values:
                found = outside(own.values[place], rows, split.place, own.indices)
            elif place in own.chunks:  # of several lengths
                tokens = torch.cat([chunk.flatten() for chunk in own.chunks[place]])
                found = outside(tokens, rows, split.place, [None] * len(tokens))
            sample = None if found is None else found.place.sample
            if found is not None and (sample is None or not is_left_out(data, split, sample)):
                return place, found
    return "", None


class Unknown(Tagger):
    """Takes -1 for a token that is not known."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(torch.where(tokens < 0, 0, tokens))


def with_unknown() -> Any:
    texts = tagged(words=100)
    texts.tensors[0][90:, 3] = -1
    return texts


PROBE = Probe(
    question="Is every token (or category) below num_embeddings of the embedding that it enters?",
    why="the table is read at that row: an IndexError, or a crash of the GPU",
    fix=Fix("num_embeddings of at least the largest index + 1; count special tokens and unknown categories too"),
    detect=detect,
    steps=("on_fit_end", RAISED),
    faulty=on_datasets(lambda: tagged(words=101), lambda: tagged(), module=Tagger),
    healthy=on_datasets(lambda: tagged(words=100), lambda: tagged(), module=Tagger),
    also_faulty=(on_datasets(with_unknown, lambda: tagged(), module=Tagger),),
    also_healthy=(on_datasets(with_unknown, lambda: tagged(), module=Unknown),),
)
