import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from training_checklist.instruments import (
    Data,
    Example,
    MappedDataset,
    Regression,
    Split,
    normal,
    on_datasets,
    part,
    shared_samples,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out

SHORTEST = 4  # numbers in a row
RUNS = 64  # of a held-out sample that are looked for
MOST = 2**24  # numbers of the training set that are looked at, 128 MiB of fingerprints
FACTOR = 6364136223846793005  # of a linear congruential generator (Knuth, MMIX): neighbours do not cancel out
KNOWN = "the network knows a part of the answers by heart, and its metrics there say nothing about new data"
RESOLVED = 2.0**-16  # of a value: 128 of the steps that float32 takes there, half of one of 16 bits
COUNTED = 20_000  # values by which it is estimated how many different ones there are


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Look for runs of numbers of held-out samples in training samples.

    What is compared with answers must be new, and so must what enters the network if it is an image. The past of a
    series may be known, and may stand in a window before what is to be told: a window counts that goes on in training
    samples on both sides, and of what is compared one that a training sample has as a whole.
    """
    one, two, roles = part(data, data.train).values, part(data, split).values, data.roles
    places = one.keys() & two.keys() & {*roles.inputs, *roles.compared}
    for place in sorted(places, key=lambda place: (place not in roles.compared, place)):
        is_image = one[place].ndim >= 4
        if (is_image and place not in roles.inputs) or repeat(one[place], limits):
            continue
        for known, held in zip(layouts(one[place]), layouts(two[place]), strict=False):
            if known.shape[1:] != held.shape[1:]:
                continue
            found, length = compare(known, held, limits) or ({}, 0)
            shared = [*found.values()]
            if is_image:
                samples = found.keys() & in_all_images(data, split, place, limits) if found else ()
                shared = [found[sample] for sample in samples]
            else:
                is_target = place in roles.compared
                shared = [each for each in shared if (is_target and [0, 0] in each) or are_on_both_sides(each)]
            if len(shared) > limits.max_shared_parts * len(held) and not are_samples(
                data, split, len(shared) / len(held)
            ):
                are_whole = not any(any(shift) for shifts in shared for shift in shifts[:1])
                sides = "" if is_image else ", before them and after them"
                parts = f"parts of training samples in {place}{sides}: {length} numbers in a row, or more"
                what = f"in {place} what a training sample has there" if are_whole else parts
                yield Hit(
                    f"{len(shared)} of {len(held)} samples that were looked at have {what}, the same to the last bit",
                    split.place.beside(note=place),
                    KNOWN if are_whole else None,
                )
                return


def in_all_images(data: Data, split: Split, place: str, limits: Limits) -> set[int]:
    """Return the held-out samples of which each further image has parts of training samples, too, or may have any.

    A map that is the same for all hours, in a tensor of its own, is no part of the answer.
    """
    one, two = part(data, data.train).values, part(data, split).values
    samples = {*range(len(two[place]))}
    for other in sorted((one.keys() & two.keys() & data.roles.inputs) - {place}):
        images = zip(layouts(one[other]), layouts(two[other]), strict=False) if one[other].ndim >= 4 else ()
        for known, held in images:
            found = compare(known, held, limits) if known.shape[1:] == held.shape[1:] else None
            samples &= samples if found is None else found[0].keys()
    return samples


def repeat(vectors: Tensor, limits: Limits) -> bool:
    """Whether training samples share vectors themselves, (N, C): what they are of has them, as a caption, a class."""
    return vectors.ndim == 2 and 1 - len(vectors.unique(dim=0)) / len(vectors) > limits.max_shared_parts


def are_on_both_sides(shifts: list[list[int]]) -> bool:
    """Whether a window is found in one that begins earlier, and in one that begins later."""
    return min(by[-1] for by in shifts) < 0 < max(by[-1] for by in shifts)


def are_samples(data: Data, split: Split, share: float) -> bool:
    """Whether as many samples are in training as a whole, of which their parts follow."""
    try:
        found = shared_samples(data, data.train, split)
    except CannotJudge:
        return False
    return found.shared >= share * found.total > 0


def layouts(values: Tensor) -> list[Tensor]:
    """Return floating-point values as (N, channels, height, width); a series has its time, on either axis, as width."""
    if not values.is_floating_point() or values.ndim < 2 or not values.isfinite().all():
        return []
    values = values.float()
    if values.ndim >= 4:
        return [values.reshape(len(values), -1, *values.shape[-2:])]
    if values.ndim == 2:
        return [values[:, None, None]]
    return [values.transpose(1, 2).unsqueeze(2), values.unsqueeze(2)]


def compare(known: Tensor, held: Tensor, limits: Limits) -> tuple[dict[int, list[list[int]]], int] | None:
    """Look for runs of `known` in `held`.

    Returns:
        For each sample of `held` that has one, by how much samples of `known` that hold it are shifted (by nothing
        where it is one of them as a whole), and how long the runs are; None where chance makes such runs.
    """
    known = known[: max(1, MOST // known[0].numel())]
    sample = known.flatten()
    sample = sample[torch.linspace(0, len(sample) - 1, min(COUNTED, len(sample))).long()]
    values, counts = sample.unique(return_counts=True)
    filling = values[counts.argmax()]  # such as 0 where nothing is: no run that has it counts
    if len(values) < limits.different_values * int((sample != filling).sum()):
        return None
    width = known.shape[-1]
    pairs = float(known.numel()) * float(len(held) * RUNS)
    length = next((n for n in range(SHORTEST, width + 1) if pairs / len(values) ** n < limits.max_same), None)
    if length is None:
        return None
    keys, theirs = fingerprints(known, length, filling), fingerprints(held, length, filling)
    runs, wanted = keys.shape, theirs.flatten(1)
    wanted[:, torch.arange(wanted.shape[1]) % max(1, wanted.shape[1] // RUNS) != 0] = 0
    wanted = wanted.flatten()
    ordered, where = keys.flatten().sort()
    at = torch.searchsorted(ordered, wanted).clamp(max=len(ordered) - 1)
    shared: dict[int, list[list[int]]] = {}
    for index in ((ordered[at] == wanted) & (wanted != 0)).nonzero().flatten().tolist():
        sample, channel, *here = torch.unravel_index(torch.tensor(index), theirs.shape)
        other, same_channel, *there = torch.unravel_index(where[at[index]], runs)
        shift = [int(one - two) for one, two in zip(here, there, strict=True)]
        if shift in shared.get(int(sample), []):
            continue
        if channel == same_channel and overlap(held[sample], known[other], shift):
            shared.setdefault(int(sample), []).append(shift)
    return shared, length


def overlap(one: Tensor, two: Tensor, shift: list[int]) -> bool:
    """Whether two images (channels, height, width) are the same as far as they cover one another.

    Two tiles of a scene are; two spots that fade into black have the same rim, and not the same middle, and what tells
    the place or the day is in one channel alone.
    """
    parts = [
        each[:, *(slice(max(by, 0), size + min(by, 0)) for by, size in zip(moved, each.shape[1:], strict=True))]
        for each, moved in ((one, shift), (two, [-by for by in shift]))
    ]
    return torch.equal(*parts)


def fingerprints(values: Tensor, length: int, filling: Tensor) -> Tensor:
    """Return a number for each run of `length` in a row, 0 for those that hold `filling` or hardly change."""
    bits = values.contiguous().view(torch.int32).long()
    windows = bits.unfold(-1, length, 1)
    keys = torch.zeros(windows.shape[:-1], dtype=torch.int64)
    for index in range(length):
        keys = keys * FACTOR + windows[..., index] + 1
    # Next to the value that a function comes to, -1 say, there are few numbers, and a row of them is easily another's.
    apart = values.diff(dim=-1).abs() > RESOLVED * values[..., 1:].abs()
    changes = apart.unfold(-1, length - 1, 1).sum(-1) >= length // 2
    full = (values != filling).unfold(-1, length, 1).all(-1)
    return torch.where(changes & full, keys, 0)


class Flat(Regression):
    """Takes images of two channels as rows of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels = nn.Linear(16, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.pixels(inputs.flatten(1)))


def captioned() -> Example:
    """Hold out samples of which each has the embedding of one of eight captions, as those of the training set."""

    def split(seed: int) -> TensorDataset:
        return TensorDataset(normal(160, 8, seed=seed), normal(8, 4)[torch.arange(160) % 8])

    return on_datasets(lambda: split(0), lambda: split(1), module=Regression)


def with_duplicates(number: int, of: int, train: int = 160) -> Example:
    """Hold out samples of which so many have the target of a training sample."""

    def held_out() -> TensorDataset:
        targets = normal(of, 4, seed=1)
        targets[:number] = normal(train, 4)[:number]
        return TensorDataset(normal(of, 8, seed=1), targets)

    return on_datasets(lambda: TensorDataset(normal(train, 8), normal(train, 4)), held_out, module=Regression)


def images(shades: int) -> Example:
    """Hold out images that lie one pixel beside those of the training set, in scenes of so many shades."""

    def split(shift: int) -> TensorDataset:
        scenes = normal(160, 1, 1, 9).flatten().argsort().view(160, 1, 1, 9) % shades / shades
        return TensorDataset(scenes[..., shift : shift + 8].clone(), normal(160, 4, seed=shift))

    return on_datasets(lambda: split(0), lambda: split(1), module=Regression)


def fading() -> Example:
    """Hold out spots of other widths, of each of which eight pixels fade to -1."""

    def split(seed: int) -> TensorDataset:
        widths = 2.0 + 0.4 * torch.rand(160, 1, 1, 1, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(2 * torch.exp(-((torch.arange(6, 14) / widths) ** 2) / 2) - 1, normal(160, 4, seed=seed))

    return on_datasets(lambda: split(0), lambda: split(1), module=Regression)


def saturated() -> Example:
    """Hold out spots whose rim comes next to -1, where float32 has few numbers."""

    def split(seed: int) -> TensorDataset:
        widths = 2.0 + 0.4 * torch.rand(160, 1, 1, 1, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(2 * torch.exp(-((torch.arange(4, 12) / widths) ** 2)) - 1, normal(160, 4, seed=seed))

    return on_datasets(lambda: split(0), lambda: split(1), module=Regression)


def of_one_day() -> Example:
    """Hold out other fields, with the same sunlight: it depends on the day alone."""

    def split(seed: int) -> TensorDataset:
        fields = [normal(160, 1, 1, 8, seed=seed), normal(160, 1, 1, 8, seed=9)]
        return TensorDataset(torch.cat(fields, 1), normal(160, 4, seed=seed))

    return on_datasets(lambda: split(0), lambda: split(1), module=Flat)


class Downscaling(Flat):
    """Is given a map beside its field."""

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return super().forward(torch.cat(inputs, 1))


def on_a_map() -> Example:
    """Hold out other fields, on crops of one map: a tensor of its own, the same at all times."""
    ground = normal(1, 1, 40, seed=9)

    def split(seed: int) -> MappedDataset:
        fields = normal(160, 1, 1, 8, seed=seed)
        begins = torch.randint(32, (160,), generator=torch.Generator().manual_seed(seed)).tolist()
        targets = normal(160, 4, seed=seed)
        return MappedDataset(
            lambda index, x, y: ([fields[index], ground[..., begins[index] : begins[index] + 8]], targets[index])
        )

    return on_datasets(lambda: split(0), lambda: split(1), module=Downscaling)


def windows(at_random: bool, channels_last: bool = True) -> Example:
    """Cut windows of a series, which go on in one another, and split them at random or by time."""

    def split(begin: int, end: int) -> TensorDataset:
        cut = normal(406, 2, seed=2).cumsum(0).unfold(0, 8, 2)  # (200 windows, 2 channels, 8 steps)
        order = torch.randperm(200, generator=torch.Generator().manual_seed(3)) if at_random else torch.arange(200)
        chosen = (cut.transpose(1, 2) if channels_last else cut)[order[begin:end]]
        return TensorDataset(chosen.clone(), normal(200, 4, seed=4)[order[begin:end]])

    return on_datasets(lambda: split(0, 150), lambda: split(150, 200), module=Flat)


def known_first() -> Example:
    """Hold out the later windows of a series, whose targets begin with four known steps, as Informer's code has it."""

    def split(begin: int, end: int) -> TensorDataset:
        cut = normal(410, 1, seed=2).flatten().unfold(0, 8, 2)[begin:end]  # (windows, 8 steps)
        return TensorDataset(normal(end - begin, 8, seed=begin), cut.clone())

    class Forecast(Regression):
        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return (outputs - targets[:, 4:]).square().mean()

    return on_datasets(lambda: split(0, 150), lambda: split(150, 200), module=Forecast)


def copies() -> Example:
    """Hold out the training set itself, which another probe is asked about."""

    def split() -> TensorDataset:
        return TensorDataset(normal(160, 8), normal(160, 4))

    return on_datasets(split, split, module=Regression)


PROBE = Probe(
    question="Are validation and test samples free of parts of training samples (no overlapping windows or tiles)?",
    why=f"windows or tiles that overlap were split at random: {KNOWN}",
    fix=Fix("split the recordings or scenes first, by time or by place, and cut each part into windows or tiles then"),
    detect=detect,
    faulty=with_duplicates(2, of=100),
    also_faulty=(windows(at_random=True), windows(at_random=True, channels_last=False)),
    healthy=with_duplicates(1, of=200),
    also_healthy=(
        *(captioned(), fading(), saturated(), copies(), of_one_day(), on_a_map()),
        *(windows(at_random=False), known_first()),
    ),
    thresholds={
        "max_same": Threshold(
            1e-4,
            "probability that any of the runs that are compared is the same by chance",
            factor=10.0,
            healthy=with_duplicates(50, of=100, train=60),
        ),
        "different_values": Threshold(
            0.1,
            "of the numbers: windows that overlap by nine tenths have each ten times; pixels of 8 bits have 256 among "
            "20,000, and strokes of them are the same by chance",
            faulty=images(shades=250),
            healthy=images(shades=64),
        ),
        "max_shared_parts": Threshold(
            0.01, "share of held-out samples, as for whole ones (data/shared-samples): exact copies are rarer than that"
        ),
    },
)
