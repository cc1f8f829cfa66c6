import time
from functools import partial
from typing import Any

from torch.utils.data import DataLoader

from training_checklist.instruments import Example, Small, StepTimes, loader, loading, reading, slowest
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(times: StepTimes, limits: Limits) -> Hits:
    if times.share <= limits.max_waiting or times.waited <= limits.min_waiting:
        return
    slow = slowest(loading(times)) if times.waited > times.computed else Place()
    mostly = f"; most of that is done in {slow.function}" if slow.function else ""
    mostly += f", by {slow.note}" if slow.note else ""
    samples = getattr(times.loader, "batch_size", None)
    usual = samples is not None and times.waited < limits.usual_sample * samples
    waited, computed = f"{1000 * times.waited:.1f} ms", f"{1000 * times.computed:.1f} ms"
    yield Hit(
        f"{times.share:.0%} of a step is waiting for data: {waited}, against {computed}{mostly}",
        place_of(times.loader).beside(file=slow.file, line=slow.line, function=slow.function),
        f"training could be {1 / max(1 - times.share, 1e-9):.1f} times as fast with data at hand",
        remedy(times.loader),
        REMARK if usual else None,
    )


def place_of(loader: Any) -> Place:
    if not isinstance(loader, DataLoader):
        return Place(loader="train_dataloader", note=type(loader).__name__)
    note = f"{type(loader.dataset).__name__}, num_workers={loader.num_workers}, "
    note += f"persistent_workers={loader.persistent_workers}, pin_memory={loader.pin_memory}"
    return Place(loader="train_dataloader", note=note)


def remedy(loader: Any) -> Fix | None:
    """Return the first setting of the loader to try."""
    if not isinstance(loader, DataLoader):
        return None
    if loader.num_workers == 0:
        advice = "with persistent_workers=True; or keep decoded samples in memory"
        return Fix(advice, overrides=("data.num_workers=2",))
    advice = "or do less in __getitem__: decode once, keep samples in memory, augment on the device"
    if not loader.persistent_workers:
        advice = "persistent_workers=True in the loader, so that workers outlive an epoch"
    return Fix(advice, overrides=(f"data.num_workers={2 * loader.num_workers}",))


def paused(seconds: float, batch_size: int = 32, computing: float = 0.0) -> Example:
    """Make a training each of whose batches takes so long to read, the most part of it for its first sample."""
    return reading(lambda index: None if index % batch_size else time.sleep(seconds), batch_size, computing)


class Augmenting(Small):
    """Transforms batches where they are on the device."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        time.sleep(0.07)
        return batch


PROBE = Probe(
    question="Is the next batch ready in time, so that a step waits little for data?",
    why="the processor or accelerator has nothing to do until then",
    may_be_wrong="the first run after a start reads from a cold disk; a second one tells",
    fix=Fix("load the next batch in another process while this one trains"),
    detect=detect,
    thresholds={
        "max_waiting": Threshold(
            0.7,
            "share of the median step; of sixteen pairs of loader and network on two busy cores the highest sound "
            "was 0.59, a small CNN on augmented 32x32 JPEGs without workers; beyond it a linear layer on JPEGs, 0.94",
            healthy=paused(0.05, computing=0.06),
        ),
        "usual_sample": Threshold(
            0.00125,
            "seconds a sample, below which it is a remark: to decode and augment an image of 64 pixels takes 0.6 ms on "
            "a quiet core and twice that on a busy one",
            faulty=paused(0.07),
            healthy=paused(0.024),
        ),
        "min_waiting": Threshold(
            0.01,
            "seconds a step; two workers alone cost 2 to 6 ms a batch on those cores, whatever they load, so that a "
            "share below says more about a small network than about the data",
            faulty=paused(0.018, batch_size=1),
            healthy=paused(0.0065, batch_size=1),
        ),
    },
    faulty=paused(0.07),
    healthy=paused(0.05, computing=0.06),
    also_healthy=(Example(Augmenting, partial(loader, 4)),),
)
