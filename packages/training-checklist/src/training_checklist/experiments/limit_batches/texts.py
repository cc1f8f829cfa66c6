"""The tokens of texts, and how long texts are."""

import time

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from training_checklist.engines.splits import Split
from training_checklist.evidence.labels import HeldOutToken, TextLengths, TokenShare
from training_checklist.lab.data import LEAST, Part
from training_checklist.lab.roles import Roles

TEXTS = 200
MARKS = 2 / 3  # of the texts begin with a mark, or with padding on their left


def token_share(part: Part, place: str, rows: int) -> list[TokenShare]:
    """Return how often the most frequent token stands in some texts, (N, T), where there are enough of them."""
    tokens = tokens_of(part, place)
    if not len(tokens):
        return []
    most = tokens.mode().values
    share = float((tokens == most).float().mean())
    return [TokenShare(place, int(most), share, rows, part.split.place.beside(note=place))]


def text_lengths(split: Split, until: float) -> list[TextLengths]:
    """Return how long texts are before they are padded; of those that have one length nothing is known."""
    lengths: dict[int, list[int]] = {}
    for index in split.chosen(TEXTS) if split.indexable else ():
        if time.monotonic() > until:
            break
        for part, value in enumerate(tree_leaves(split.items([index]))):
            if isinstance(value, Tensor) and value.ndim == 1 and not value.is_floating_point():
                lengths.setdefault(part, []).append(len(value))
        if not lengths:  # images are no texts: none of them is worth loading
            break
    known = max(lengths.values(), key=len, default=[])
    if len(known) < LEAST or len(set(known)) < 2:
        return []
    return [TextLengths(max(known), known.count(max(known)), len(known), split.place_of("__getitem__"))]


def held_out_tokens(own: Part, other: Part, roles: Roles) -> list[HeldOutToken]:
    """Hold the shares of tokens in a held-out split against those in the training set."""
    found = []
    for place, rows in roles.tables.items():
        one, two = (tokens_of(part, place) for part in (own, other))
        if len(one) and len(two) and int(min(one.min(), two.min())) >= 0:
            size = max(rows, int(one.max()) + 1, int(two.max()) + 1)
            shares = [torch.bincount(each.long(), minlength=size) / len(each) for each in (one, two)]
            token = int((shares[1] - shares[0]).argmax())
            here = float(shares[1][token]), float(shares[0][token])
            found.append(HeldOutToken(place, other.split.name, token, *here, other.split.place.beside(note=place)))
    return found


def tokens_of(part: Part, place: str) -> Tensor:
    """Return the tokens of some texts, (N, T), but for marks and padding at their ends; none of too few texts."""
    texts = [chunk for chunk in part.chunks.get(place, []) if chunk.ndim == 2 and chunk.shape[1] > 2]
    if sum(map(len, texts)) < LEAST:
        return torch.tensor([])
    tokens = torch.cat([text.flatten() for text in texts])
    firsts, lasts = (torch.cat([text[:, end] for text in texts]) for end in (0, -1))
    begin, padding = firsts.mode().values, lasts.mode().values
    if float((firsts == begin).float().mean()) > MARKS:
        tokens = tokens[tokens != begin]
    return tokens[tokens != padding]
