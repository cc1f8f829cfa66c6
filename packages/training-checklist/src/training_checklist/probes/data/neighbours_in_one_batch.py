import torch
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.instruments import Data, Example, MappedDataset, by_index, in_order, load, on_datasets
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

RUNS = 32  # of samples that follow one another, from all over the training set
LENGTH = 4  # samples in each of them, or as many as a batch has


def detect(data: Data, limits: Limits) -> Hits:
    """Hold samples that follow one another against those from elsewhere, where training reads them in order."""
    split, roles = by_index(data.train, least=RUNS * LENGTH), data.roles
    if not in_order(data):
        return
    length = min(LENGTH, split.loader.batch_size or 1)
    if length == 1:
        raise CannotJudge("a batch has a single sample")
    starts = [run * (split.samples - length) // (RUNS - 1) for run in range(RUNS)]
    asked = [start + step for start in starts for step in range(length)]
    part = load(split, asked, roles, data.trainer, data.until)
    if len(part.indices) != len(asked):
        raise CannotJudge("samples are too slow to be loaded")
    # Labels have a probe of their own.
    target = {roles.target} - {None} if roles.classes is None else set()
    numbers = {place: numbers_of(part.of(place)) for place in sorted(roles.inputs | target)}
    shares = {
        place: share_between(each.reshape(RUNS, length, -1)) for place, each in numbers.items() if each is not None
    }
    place = max(shares, key=shares.__getitem__, default=None)
    if place is not None and shares[place] > limits.max_between:
        yield Hit(
            f"the training set is read in order ({split.sampler}), and samples that follow one another are alike: "
            f"their {place} correlate with {shares[place]:.2f}, of {len(asked)} samples",
            split.place.beside(note=f"sampler {split.sampler} over {split.place.note}"),
        )


def numbers_of(values: Tensor | None) -> Tensor | None:
    """Return (N, numbers), of one column of codes a number for each code; None of what holds neither."""
    if values is None or not bool(values.isfinite().all()):
        return None
    if values.is_floating_point():
        return values.reshape(len(values), -1).double()
    if values.numel() != len(values):
        return None
    codes, which = values.flatten().unique(return_inverse=True)
    return torch.nn.functional.one_hot(which, len(codes)).double()


def share_between(groups: Tensor) -> float:
    """Return the share of the variance of (G, n, numbers) that lies between groups; 0 where nothing varies.

    It is the intraclass correlation of the first kind (Shrout and Fleiss 1979): 0 of groups that are drawn by chance.
    """
    number, size = groups.shape[:2]
    means = groups.mean(1)
    between = size * float((means - means.mean(0)).square().sum()) / (number - 1)
    within = float((groups - means[:, None]).square().sum()) / (number * (size - 1))
    whole = between + (size - 1) * within
    return (between - within) / whole if whole > torch.finfo(groups.dtype).tiny else 0.0


def waves(noise: float) -> Example:
    def wave(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tensor(index / 10).sin() + noise * torch.randn(8), y

    return on_datasets(lambda: DataLoader(MappedDataset(wave), 16))


PROBE = Probe(
    question="Does each training batch hold samples from all over the training set, and not neighbours?",
    why="windows of one series, or rows of one person, follow one another: each step learns these and forgets others, "
    "and the last ones of an epoch are favoured",
    severity=WARNING,
    may_be_wrong="recurrent networks that keep their state from batch to batch, and curricula, read the data in order",
    fix=Fix("shuffle=True in train_dataloader, unless the network carries its state from one batch to the next"),
    detect=detect,
    faulty=waves(0.46),
    healthy=waves(1.08),
    thresholds={
        "max_between": Threshold(
            0.5, "share of the variance: less is within a batch than between batches; 0 in any order that is drawn"
        )
    },
)
