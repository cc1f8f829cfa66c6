"""The tokens of texts."""

import torch

from training_checklist.evidence.labels import TokenShare
from training_checklist.experiments.limit_batches.samples import LEAST, Part

MARKS = 2 / 3  # of the texts begin with a mark, or with padding on their left


def token_share(part: Part, place: str, rows: int) -> list[TokenShare]:
    """Return how often the most frequent token stands in some texts, (N, T), where there are enough of them."""
    texts = [chunk for chunk in part.chunks.get(place, []) if chunk.ndim == 2 and chunk.shape[1] > 2]
    if sum(map(len, texts)) < LEAST:
        return []
    tokens = torch.cat([text.flatten() for text in texts])
    firsts, lasts = (torch.cat([text[:, end] for text in texts]) for end in (0, -1))
    begin, padding = firsts.mode().values, lasts.mode().values
    if float((firsts == begin).float().mean()) > MARKS:
        tokens = tokens[tokens != begin]
    tokens = tokens[tokens != padding]
    if not len(tokens):
        return []
    most = tokens.mode().values
    share = float((tokens == most).float().mean())
    return [TokenShare(place, int(most), share, rows, part.split.place.beside(note=place))]
