import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from training_checklist.instruments import StepTimes, loading, reading, share_in
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(times: StepTimes, limits: Limits) -> Hits:
    share, place = share_in("pandas", loading(times))
    lost = share * times.share
    if lost > limits.max_in_tables:
        yield Hit(
            f"{place.function} asks a table of pandas for each sample, which takes {share:.0%} of the time of loading, "
            f"and so {lost:.0%} of a step",
            place.beside(loader="train_dataloader"),
        )


def searched(seconds: float, others: float) -> Callable[[int], Any]:
    """Have pandas work so long on each sample, and everything else so long."""

    def read(index: int) -> None:
        pandas = import_module("pandas")  # which a project need not have
        pandas.Series([index]).map(lambda _: time.sleep(seconds))
        time.sleep(others)

    return read


PROBE = Probe(
    question="Does __getitem__ avoid slow look-ups in a pandas table?",
    why="a look into a table takes pandas some 100 times as long as NumPy or torch, and a search goes through all rows",
    severity=WARNING,
    fix=Fix("in __init__, make arrays or tensors of the columns, and lists by group; in __getitem__, index them"),
    detect=detect,
    thresholds={
        "max_in_tables": Threshold(1 / 3, "share of a step: without it, training takes two thirds of the time")
    },
    faulty=reading(searched(0.004, others=0.0), 4),
    healthy=reading(searched(0.002, others=0.01), 4),
)
