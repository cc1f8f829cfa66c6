import mmap
from itertools import pairwise
from statistics import mean
from typing import Any

from training_checklist.instruments import Small, WholeTraining, in_bytes, measured, parts
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(training: WholeTraining, limits: Limits) -> Hits:
    kinds = {
        "memory of this process": ("resident", Place()),
        "tensors on the device": ("allocated", Place(note=str(training.device))),
    }
    known = 0
    for kind, (name, place) in kinds.items():
        found = [(getattr(block, name), block.step) for block in training.blocks if getattr(block, name) is not None]
        known += len(found)
        if found:
            used, steps = zip(*(part[-1] for part in parts(found)), strict=True)
            growth = [later - earlier for earlier, later in pairwise(used)]
            half, grown = len(growth) // 2, used[-1] - used[0]
            is_flattening = mean(growth[-half:]) < mean(growth[:half]) / 2
            if min(growth) > 0 and not is_flattening and grown >= limits.grown_mb * 2**20:
                yield Hit(
                    f"{kind} grows in each of {len(used)} parts of the training and never levels off: "
                    f"{in_bytes(used[0])} at step {steps[0]}, {in_bytes(used[-1])} at step {steps[-1]}, "
                    f"{in_bytes(grown / max(steps[-1] - steps[0], 1))} a step",
                    place,
                )
    if not known:
        raise CannotJudge("this system does not tell of memory, or of too few steps")


class Hoarding(Small):
    """Keeps so many KiB of each step."""

    kib = 448

    def on_train_start(self) -> None:
        self.kept: list[mmap.mmap] = []

    def on_train_batch_end(self, outputs: Any, batch: list, batch_idx: int) -> None:
        self.kept.append(mmap.mmap(-1, self.kib * 1024))
        self.kept[-1].write(bytes([1]) * self.kib * 1024)


PROBE = Probe(
    question="Does the memory in use stop growing at some point of the training?",
    why="a training that is long enough ends with 'out of memory', or is killed",
    severity=WARNING,
    fix=Fix("it names what keeps graphs, outputs or samples", items=("memory",)),
    detect=detect,
    thresholds={
        "grown_mb": Threshold(
            16,
            "MiB from the first eighth of the training to its end: twelve healthy trainings of 180 to 1,250 steps "
            "grew by at most 1.6, the records of this item among them",
        )
    },
    faulty=measured(Hoarding),
    healthy=measured(type("Keeping", (Hoarding,), {"kib": 128})),
)
