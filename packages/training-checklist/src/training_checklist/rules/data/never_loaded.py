from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import LoaderSize
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(loader: LoaderSize, limits: Any) -> Iterator[Hit]:
    if not (loader.fixed and loader.drop_last and loader.batches and loader.batch_size):
        return
    left = loader.samples - loader.batches * loader.batch_size
    # A share of n samples has a standard error of at most 0.5 / sqrt(n): what is left out can move a metric by more.
    if left > 0.5 * loader.samples**0.5:
        yield Hit(
            f"{left} of {loader.samples} samples of {loader.place.loader} are in no batch of any epoch: "
            f"drop_last=True, batch_size={loader.batch_size}, always in the same order",
            loader.place,
        )


RULE = Rule(
    id="data/never-loaded",
    item="limit_batches",
    question="Is every sample loaded in some epoch?",
    why="they are neither learned from nor measured, and they are always the same ones",
    severity=WARNING,
    evidence=LoaderSize,
    judge=judge,
    fix=Fix("drop_last=False for validation and testing; shuffle=True for training"),
    faulty=lambda: LoaderSize("val", samples=320, batches=2, batch_size=128, drop_last=True, fixed=True),
    healthy=lambda: LoaderSize("train", samples=320, batches=2, batch_size=128, drop_last=True, fixed=False),
)
