from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.step_times import Loader, StepTimes
from training_checklist.finding import FAILED, REMARK, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold

LEAST = 3  # steps of which the median is no outlier


def judge(times: StepTimes, limits: Any) -> Iterator[Hit]:
    if times.steps < LEAST:
        raise CannotJudge(f"{times.steps} measured steps are too few to measure by; {LEAST} are needed")
    if times.share > limits.max_waiting and times.waited > limits.min_waiting:
        waited, computed = f"{1000 * times.waited:.1f} ms", f"{1000 * times.computed:.1f} ms"
        faster = (times.waited + times.computed) / max(times.computed, 1e-9)
        mostly = f"; most of that is done in {times.slow.function}" if times.slow.function else ""
        mostly += f", by {times.slow.note}" if times.slow.note else ""
        place = times.loader.place
        usual = times.samples is not None and times.waited < limits.usual_sample * times.samples
        yield Hit(
            f"{times.share:.0%} of a step is waiting for data: {waited}, against {computed}{mostly}",
            place.beside(file=times.slow.file, line=times.slow.line, function=times.slow.function),
            f"training could be {faster:.1f} times as fast with data at hand",
            remedy(times.loader),
            REMARK if usual else None,
        )


def remedy(loader: Loader) -> Fix:
    """Return the first setting of the loader to try."""
    if loader.workers is None:
        return Fix("load the next batch in another process while this one trains")
    if loader.workers == 0:
        advice = "with persistent_workers=True; or keep decoded samples in memory"
        return Fix(advice, overrides=("data.num_workers=2",))
    advice = "or do less in __getitem__: decode once, keep samples in memory, augment on the device"
    if not loader.persistent:
        advice = "persistent_workers=True in the loader, so that workers outlive an epoch"
    return Fix(advice, overrides=(f"data.num_workers={2 * loader.workers}",))


RULE = Rule(
    id="profile/waiting-for-data",
    item="profile",
    question="Are data at hand for most of a step?",
    why="the processor or accelerator has nothing to do until then",
    severity=FAILED,
    evidence=StepTimes,
    judge=judge,
    fix=Fix("load the next batch while this one trains"),
    faulty=lambda: StepTimes(0.2, 0.05, 20, Loader("ImageFolder", 0, False, False)),
    healthy=lambda: StepTimes(0.17, 0.12, 20, Loader("ImageFolder", 0, False, False)),
    thresholds={
        "max_waiting": Threshold(
            0.7,
            "share of the median step; of sixteen pairs of loader and network on two busy cores the highest sound "
            "was 0.59, a small CNN on augmented 32x32 JPEGs without workers; beyond it a linear layer on JPEGs, 0.94",
        ),
        "usual_sample": Threshold(
            0.00125,
            "seconds a sample, below which it is a remark: to decode and augment an image of 64 pixels takes 0.6 ms on "
            "a quiet core and twice that on a busy one",
        ),
        "min_waiting": Threshold(
            0.01,
            "seconds a step; two workers alone cost 2 to 6 ms a batch on those cores, whatever they load, so that a "
            "share below says more about a small network than about the data",
        ),
    },
)
