"""Which positions of a dataset the samplers draw, and what lies there."""

from collections.abc import Iterable
from functools import wraps
from itertools import chain
from typing import Any
from weakref import ref

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.replay import seed_all
from training_checklist.lightning import isolate_rng

PROBED = 3  # samples of a dataset, from its whole length, that tell it from others


class DrawnIndices:
    """While it is entered, what the sampler of every DataLoader of this process draws is kept."""

    def __init__(self) -> None:
        # By the sampler's id, which must not be given to another one; each pass with its iterator, which may end.
        self.passes: dict[int, tuple[Any, list[tuple[ref, list[Any]]]]] = {}
        self._next: Any = None

    def __enter__(self) -> "DrawnIndices":
        self._next = draw = _BaseDataLoaderIter._next_index  # in this process also where workers load

        @wraps(draw)
        def kept(iterator: Any) -> Any:
            index = pass_on(draw, iterator)
            sampler = iterator._index_sampler
            passes = self.passes.setdefault(id(sampler), (sampler, []))[1]
            if not passes or passes[-1][0]() is not iterator:
                passes.append((ref(iterator), []))
            passes[-1][1].append(index)
            return index

        _BaseDataLoaderIter._next_index = kept
        return self

    def __exit__(self, *error: object) -> None:
        if self._next is not None:
            _BaseDataLoaderIter._next_index, self._next = self._next, None

    def of(self, loader: DataLoader, count: int | None = None) -> list[Any]:
        """Return the positions that each batch was made of, batch by batch; none of iterable data."""
        drawn = list(chain.from_iterable(self.by_pass(loader)))
        return [each for each in drawn[:count] if None not in flat([each])]

    def by_pass(self, loader: DataLoader) -> list[list[Any]]:
        """Return the positions of each pass through the loader, batch by batch; None in them of iterable data."""
        _, passes = self.passes.get(id(loader._index_sampler), (None, []))
        return [drawn for _, drawn in passes]


def flat(drawn: Iterable[Any]) -> list[Any]:
    return [index for batch in drawn for index in (batch if isinstance(batch, list) else [batch])]


def length(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


def content_of(dataset: Any, drawn: list[Any] | None = None) -> str | None:
    """Return a digest of some samples after one seed: equal where datasets are; None where they cannot be read.

    Args:
        dataset: with a length.
        drawn: what a sampler drew; the first of these are taken instead of positions.
    """
    samples = length(dataset)
    if not samples or not hasattr(dataset, "__getitem__"):
        return None
    keys = drawn[:PROBED] if drawn is not None else sorted({samples * part // PROBED for part in range(PROBED)})
    with isolate_rng(include_cuda=False):
        seed_all()
        try:
            fetch = getattr(dataset, "__getitems__", None)
            return digest_of(fetch(keys) if fetch is not None else [dataset[key] for key in keys])
        except Exception:  # a dataset may want other keys than numbers
            return None
