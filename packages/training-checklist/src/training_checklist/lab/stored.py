"""What a dataset keeps for its samples in memory or in files, before any augmentation, and what two have in common."""

import ast
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, IterableDataset

from training_checklist.engines.batches import DEPTH, parts
from training_checklist.engines.drawn_indices import length
from training_checklist.engines.fingerprints import bytes_in
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.source_trees import reached, tree_of
from training_checklist.engines.splits import Split
from training_checklist.finding import Place
from training_checklist.lab.data import Data, by_index
from training_checklist.lab.shared import once
from training_checklist.lightning import LightningModule
from training_checklist.probe import CannotJudge

COMPARED = 150  # samples that are compared with each other
MANY_NUMBERS = 16  # in which two images or recordings differ, and two rows of a table need not
WORDS = 3  # more of them than a name has
LONGEST_PATH = 255  # letters of a name that a file system takes
AFTER_TESTS = ("on_test_batch_end", "on_test_epoch_end", "on_test_end", "test_epoch_end")
MEASURES = re.compile(
    "log|loss|metric|acc|score|err|crit|mse|mae|auc|f1|eval|compare|correct|update|print|save|write|dump"
)
TRIED, DRAWN = 4, 16  # of shared samples, and how often each is drawn to see which part of it a split takes
SAME = 1e-3  # of a standard deviation: what float32 makes of numbers around a thousand
MOST_COMPARED = 10_000_000  # numbers of all windows of a series
SMALLEST_ROW = 4  # numbers; fewer are too likely to be the same by chance


def origin(dataset: Any) -> tuple[Any, list[int] | None]:
    """Return the dataset behind subsets and wrappers, and which of its samples are in; None: all, in their order."""
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if isinstance(inner, Dataset) and indices is not None:
        base, below = origin(inner)
        indices = [int(index) for index in indices]
        return base, indices if below is None else [below[index] for index in indices]
    for value in attributes(dataset):
        if isinstance(value, Dataset) and value is not dataset and not isinstance(value, IterableDataset):
            base, below = origin(value)
            if length(value) == length(dataset) is not None:  # wrapped, to transform its samples
                return base, below
    return dataset, None


def attributes(dataset: Any) -> list[Any]:
    """Return what a dataset keeps; of a Series, which is asked by its own index, the values."""
    kept = getattr(dataset, "__dict__", {}).values()
    return [value.to_numpy() if type(value).__name__ == "Series" else value for value in kept]


def columns(dataset: Any) -> list[Any]:
    """Return everything that a dataset keeps one of for each sample: tensors, arrays and lists of its length."""
    kept = attributes(dataset)
    kept += [part for value in kept if isinstance(value, (list, tuple)) and len(value) < 10 for part in value]
    samples = length(dataset)
    return [value for value in kept if samples is not None and is_column(value, samples)]


def is_column(value: Any, length: int) -> bool:
    return (isinstance(value, (list, tuple)) or is_array(value)) and len(value) == length


def is_array(value: Any) -> bool:
    """Whether something has rows as an array has.

    A class such as numpy.float32 has no shape, no sparse matrix of SciPy's has a length, and an array in a file that is
    closed neither.
    """
    try:
        return hasattr(value, "dtype") and isinstance(value.shape, tuple) and len(value) == value.shape[0]
    except Exception:
        return False


def raw_row(dataset: Any) -> Callable[[int], Any] | None:
    """Return a function from a sample's index to what is stored for it, but for its labels.

    None where nothing is found; augmentation plays no part in what is stored.
    """
    best, size = None, SMALLEST_ROW - 1
    kept = [value for value in attributes(dataset) if isinstance(value, (list, tuple)) or is_array(value)]
    arrays = [value for value in kept if isinstance(value, Tensor | np.ndarray) and value.ndim > 1]
    for column in columns(dataset):
        weight = row_size(column[0])
        # Numbers beside something else that is kept may be indices into it, such as the ends of windows.
        if isinstance(column[0], (list, tuple)) and are_numbers(column[0]) and len(kept) > 1:
            continue
        if weight > size:
            best, size = column, weight
    if best is None or any(is_pool_beside(each, best) for each in arrays):
        return None
    return lambda index: best[index]


def is_pool_beside(array: Tensor | np.ndarray, column: Any) -> bool:
    """Whether an array has rows of the same form, of another number: a sample may be made of one of each."""
    return array.shape[1:] == getattr(column[0], "shape", None) and len(array) != len(column)


def row_size(row: Any) -> int:
    """Return how many numbers or letters tell a sample from others."""
    if isinstance(row, (str, bytes)):
        return len(row)
    if isinstance(row, (list, tuple)):
        return len(row) if are_numbers(row) else max(map(row_size, row), default=0)
    if hasattr(row, "__fspath__"):
        return len(str(row))
    shape = getattr(row, "shape", ())
    return int(torch.Size(shape).numel()) if shape else 0


def are_numbers(row: Any) -> bool:
    """Whether a list holds numbers alone, as that of the items in a session does."""
    return all(isinstance(value, Number) for value in row)


def digest_row(row: Any) -> int:
    """Hash the part of a row that is largest, so that a label beside it does not count."""
    if isinstance(row, (list, tuple)):
        return hash(tuple(row)) if are_numbers(row) else digest_row(largest(row))
    if isinstance(row, Tensor):
        row = bytes_in(row.detach())
    return hash(row.tobytes() if hasattr(row, "tobytes") else str(row))


def largest(row: Any) -> Any:
    row = row.pieces if isinstance(row, Loaded) else row
    return max(row, key=row_size) if isinstance(row, (list, tuple)) and not are_numbers(row) else row


class Unseen(Exception):
    """A sample holds something that cannot be looked at."""


def pieces(sample: Any, depth: int = DEPTH) -> Iterator[Any]:
    """Yield every tensor, array, image, name and number of a sample.

    Raises:
        Unseen: something else is in it, so that samples may differ in what was not seen.
    """
    if isinstance(sample, (Tensor, str, bytes, int, float, type(None))) or hasattr(sample, "tobytes"):
        yield sample
        return
    inside = list(parts(sample))
    if depth == 0 or not (inside or isinstance(sample, (list, tuple, dict))):
        raise Unseen(type(sample).__name__)
    for _, each in inside:
        yield from pieces(each, depth - 1)


def are_unlikely_to_repeat(rows: list[Any]) -> bool:
    """Whether samples of such data are never the same by chance: any two that differ do so in many of their numbers."""
    rows = rows[:: len(rows) // COMPARED + 1]
    try:
        parts = [numbers_of(largest(row)).flatten() for row in rows]
        # Of several sizes, what one has and another has not is a difference.
        numbers = pad_sequence(parts, batch_first=True, padding_value=-1).unique(dim=0)
    except (TypeError, ValueError, RuntimeError):  # of names
        return False
    if len(numbers) < 2:
        return False
    fewest = min(int((numbers[:place] != row).sum(1).min()) for place, row in enumerate(numbers[1:], 1))
    return fewest >= min(MANY_NUMBERS, numbers.shape[1])


def numbers_of(row: Any) -> Tensor:
    """Return what a row is made of as numbers: of a text those of its letters.

    Raises:
        TypeError: it is a name, or nothing that is made of numbers.
    """
    if isinstance(row, str):
        if not is_text(row):
            raise TypeError(row)
        return torch.tensor([ord(letter) for letter in row])
    numbers = torch.as_tensor(row).cpu()
    return numbers.short() if numbers.dtype == torch.uint8 else numbers  # which -1 is none of


def is_text(row: str) -> bool:
    """Whether something is a text of several words, and no name or path."""
    return len(row.split()) > WORDS and not os.path.exists(row[:LONGEST_PATH])


def is_blank(row: Any) -> bool:
    """Whether a sample is the same number throughout, as an empty image, and may well repeat."""
    row = largest(row)
    return isinstance(row, Tensor | np.ndarray) and bool((row == row.reshape(-1)[0]).all())


def stored_inputs(dataset: Any, indices: list[int]) -> Tensor | None:
    """Return what is stored of some samples, where that is numbers of one shape."""
    base, inside = origin(dataset)
    row = raw_row(base)
    known = indices if inside is None else [inside[index] for index in indices]
    try:
        return None if row is None else torch.stack([torch.as_tensor(row(index)).cpu() for index in known]).float()
    except (TypeError, ValueError, RuntimeError):
        return None


def stored_labels(dataset: Any, indices: list[int], labels: Tensor) -> Tensor | None:
    """Return all labels of a dataset where it keeps them in one piece, else None.

    `labels` are those of the samples at `indices` as the network gets them, and must be the same.
    """
    base, inside = origin(dataset)
    known = indices if inside is None else [inside[index] for index in indices]
    for column in columns(base):
        try:
            stored = torch.as_tensor(column).cpu()
        except (TypeError, ValueError, RuntimeError):
            continue
        if stored.ndim == 1 and not stored.is_floating_point() and torch.equal(stored[known].long(), labels.long()):
            return stored.long() if inside is None else stored[inside].long()
    return None


@dataclass
class SharedSamples:
    """Samples of a split that another one has too.

    Args:
        shared: how many.
        total: of the split, or as many as were looked at.
        same_dataset: whether both are parts of one dataset, so that indices tell.
        rows: of the other split that were looked at.
        repeatable: whether two samples of such data may well be equal by chance, as rows of a table.
        repeated: rows of the other split that it has more than once.
        place: of the first.
    """

    shared: int
    total: int
    same_dataset: bool
    rows: int
    place: Place
    repeatable: bool = False
    repeated: int = 0


def is_measured(pl_module: LightningModule) -> bool:
    """Whether the project's own code of testing names anything that a score is logged, made or written with."""
    code = [tree_of(each) for each in reached(pl_module, "test_step", *AFTER_TESTS)]
    nodes = [node for tree in code for node in ast.walk(tree)]
    names = [getattr(node, "id", getattr(node, "attr", "")) for node in nodes]
    return not code or any(MEASURES.search(name) for name in names)


@once
def shared_samples(data: Data, train: Split, split: Split) -> SharedSamples:
    """Compare what two splits keep, before any augmentation.

    Raises:
        CannotJudge: nothing tells.
    """
    if split.stage == "test" and not is_measured(data.pl_module):
        raise CannotJudge("test_step measures nothing: it only returns what the network makes of the samples")
    base, inside = origin(by_index(train).dataset)
    other, outside = origin(by_index(split).dataset)
    read = None
    if other is base:
        read = range(len(base)) if inside is None else inside, range(len(base)) if outside is None else outside
    elif inside is None and outside is None and type(base) is type(other):
        one, two = rows_read(base), rows_read(other)
        read = (one[0], two[0]) if one is not None and two is not None and one[1] == two[1] else None
    if read is not None:
        common = set(read[0])
        found = [place for place, row in enumerate(read[1]) if row in common]
        return SharedSamples(len(found), len(read[1]), True, len(common), at_first(split, found))
    try:
        rows, others = (stored_rows(*each, data.until) for each in ((base, inside, train), (other, outside, split)))
    except Unseen as kind:
        raise CannotJudge(f"a sample holds something that cannot be compared: {kind}") from None
    if not rows or not others:
        raise CannotJudge(f"{split.name} or {train.name} keeps nothing that tells its samples apart")
    keys, other_keys = files_told_apart(rows, others, (folders(base), folders(other)), data.until)
    counts = Counter(keys)
    repeated = sum(count for count in counts.values() if count > 1)
    named = all(name_in(row) is not None for row in rows[:COMPARED])
    repeatable = bool(repeated) if named else not are_unlikely_to_repeat(rows)
    found = [i for i, key in enumerate(other_keys) if key in counts and (repeatable or not is_blank(others[i]))]
    same = [(keys.index(other_keys[place]), place, others[place]) for place in found[:: len(found) // TRIED + 1]]
    with suppress(Unseen):
        found = [] if same and all(ends_later(train, split, *each) for each in same) else found
    return SharedSamples(len(found), len(others), False, len(rows), at_first(split, found), repeatable, repeated)


def ends_later(train: Split, split: Split, index: int, held: int, row: Any) -> bool:
    """Whether the last part of a held-out window, its target, lies behind what training draws of the same series.

    Of a sequence of whole numbers, as of what a person bought: whether it holds one that training does not see.
    """
    series = largest(row)
    if isinstance(series, list | tuple) and are_numbers(series):
        series = torch.tensor(series)
    if isinstance(series, Tensor) and series.ndim == 1 and not series.is_floating_point():
        seen = set().union(*(numbers_in(loaded(train, index)) for _ in range(DRAWN)))
        return not seen.issuperset(numbers_in(loaded(split, held)) & {*series.tolist()})
    if not isinstance(series, Tensor | np.ndarray) or series.ndim not in (1, 2) or torch.as_tensor(series).is_complex():
        return False
    series = torch.as_tensor(series).cpu().double()
    last = last_part(series, loaded(split, held))
    drawn = [last_part(series, loaded(train, index)) for _ in range(DRAWN)]
    return last is not None and all(each is not None and each[1] <= last[0] for each in drawn)


def numbers_in(sample: "Loaded") -> set[int]:
    """Return the whole numbers of a sample: of a sequence of things, which these are."""
    kinds = Tensor | np.ndarray | int | np.integer
    pieces = [torch.as_tensor(each) for each in sample.pieces if isinstance(each, kinds)]
    return {number for each in pieces if not each.is_floating_point() for number in each.flatten().tolist()}


def last_part(series: Tensor, sample: "Loaded") -> tuple[int, int] | None:
    """Return where the last part of a series (T,) or (T, C) in a sample, scaled or not, begins and ends."""
    series, found = series[:, None] if series.ndim == 1 else series, []
    for piece in sample.pieces:
        if not isinstance(piece, Tensor | np.ndarray) or not piece.ndim:
            continue
        window = torch.as_tensor(piece).cpu().double()
        window = window[:, None] if window.ndim == 1 else window
        if window.ndim != 2 or window.shape[1] != series.shape[1] or not 1 < len(window) < len(series):
            continue
        if len(series) * window.numel() > MOST_COMPARED:
            return None
        windows = series.unfold(0, len(window), 1)
        same = torch.isclose(standard(windows), standard(window.T[None]), rtol=SAME, atol=SAME).flatten(1).all(1)
        found += [(int(each), int(each) + len(window)) for each in same.nonzero()[:, 0]]
    return max(found, key=lambda part: (part[1], part[0]), default=None)


def standard(windows: Tensor) -> Tensor:
    """Return windows (N, C, T) with mean 0 and deviation 1 in each channel."""
    centred = windows - windows.mean(2, keepdim=True)
    return centred / centred.square().mean(2, keepdim=True).sqrt().clamp_min(torch.finfo().tiny)


def at_first(split: Split, positions: list[int]) -> Place:
    return split.place.beside(sample=positions[0] if positions else 0)


def rows_read(dataset: Any) -> tuple[list[int], list[int]] | None:
    """Return which rows of what it keeps a dataset reads, and digests of that; None where it reads all that it keeps.

    Known by its numbers: whole, each once, one for each sample, and fewer than the rows of everything else.
    """
    length = len(dataset)
    arrays = [value for value in attributes(dataset) if isinstance(value, list) or is_array(value)]
    kept = [value for value in arrays if len(value) > length]
    for value in arrays if kept else ():
        if len(value) != length:
            continue
        try:
            rows = torch.as_tensor(value).cpu()
        except (TypeError, ValueError, RuntimeError):
            continue
        if rows.ndim != 1 or rows.is_floating_point() or len(rows.unique()) < length or int(rows.min()) < 0:
            continue
        read = [value for value in kept if len(value) > int(rows.max())]
        if read:
            return rows.tolist(), [hash(str(value)) if isinstance(value, list) else digest_row(value) for value in read]
    return None


def stored_rows(base: Any, inside: list[int] | None, split: Split, until: float) -> list[Any]:
    """Return what is stored of a split's samples, or what its dataset returns where that is always the same."""
    row = raw_row(base)
    if row is None:
        inside, row = None, lambda index: loaded(split, index)
        chosen = split.chosen(5)
        if any(told_apart(row(index)) != told_apart(row(index)) for index in chosen):
            return []  # they are augmented
    rows: list[Any] = []
    for index in range(split.samples) if inside is None else inside:
        if len(rows) % 64 == 0 and rows and time.monotonic() > until:
            break
        rows.append(row(index))
    return rows


@dataclass
class Loaded:
    """All that a dataset returns for a sample."""

    pieces: list[Any]


def loaded(split: Split, index: int) -> Loaded:
    return Loaded(list(pieces(pass_on(split.dataset.__getitem__, index))))


def told_apart(row: Any) -> Any:
    """Return what tells a row from others: of a loaded sample all of it, of a stored one the largest part."""
    return tuple(map(digest_row, row.pieces)) if isinstance(row, Loaded) else digest_row(row)


def files_told_apart(
    rows: list[Any], others: list[Any], within: tuple[list[str], list[str]], until: float
) -> tuple[list[Any], list[Any]]:
    """Return what tells rows from others: of files their contents, as far as time allows, of all else the row itself.

    Files of different sizes have different contents, so that few are read.

    Args:
        within: folders that each of the two datasets keeps, from which its names may be.
    """
    both_named = ([name_in(row) for row in each] for each in (rows, others))
    paths, other_paths = (files_in(names, each) for names, each in zip(both_named, within, strict=True))
    if paths is None or other_paths is None:
        apart = ("", "") if within[0] == within[1] or not all(within) else map(str, within)
        return tuple(
            [(folder, told_apart(row)) for row in each] for folder, each in zip(apart, (rows, others), strict=True)
        )
    sizes, other_sizes = ([os.path.getsize(path) for path in each] for each in (paths, other_paths))
    both = set(sizes) & set(other_sizes)

    def key(path: str, size: int) -> Any:
        if size not in both or time.monotonic() > until:
            return os.path.realpath(path)
        return blake2b(Path(path).read_bytes()).digest()

    return list(map(key, paths, sizes)), list(map(key, other_paths, other_sizes))


def folders(dataset: Any) -> list[str]:
    """Return the folders that a dataset names."""
    texts = [str(value) for value in attributes(dataset) if isinstance(value, str) or hasattr(value, "__fspath__")]
    return [text for text in texts if 0 < len(text) <= LONGEST_PATH and os.path.isdir(text)]


def files_in(names: list[str | None], within: list[str]) -> list[str] | None:
    """Return the files of some names, from here or from one of some folders; None where one is none."""
    for folder in ("", *within):
        if all(name is not None and os.path.isfile(os.path.join(folder, name)) for name in names):
            return [os.path.join(folder, str(name)) for name in names]
    return None


def name_in(row: Any) -> str | None:
    """Return the name or path that a row is, alone or beside a label; None where it is none."""
    inside = row if isinstance(row, (list, tuple)) else [row]
    names = (str(part) for part in inside if isinstance(part, str) or hasattr(part, "__fspath__"))
    return next((name for name in names if not is_text(name)), None)
