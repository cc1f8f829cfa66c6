from torch import nn

from training_checklist.instruments import Example, LayerModes, TwoEpochs, several_steps, with_part
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    modes = run.heard()
    few = {path: sizes for path, sizes in modes.norm_sizes.items() if sizes[0] < limits.min_norm_samples}
    if few and run.trainer.world_size == 1:  # SyncBatchNorm adds up the batches of all ranks
        samples, values = min(few.values())
        yield Hit(
            f"a batch has {samples} samples, of which {', '.join(list(few)[:3])} takes mean and variance",
            Place(module=", ".join(few)),
            severity=FAILED if values < limits.min_norm_samples else WARNING,
        )


def normed(samples: int) -> Example:
    return several_steps(with_part(lambda: nn.BatchNorm1d(4), lambda norm, answers: norm(answers)), samples)


PROBE = Probe(
    question="Does each batch have enough samples for BatchNorm?",
    why="statistics of so few samples are noise, and validation uses others",
    listener=LayerModes,
    detect=detect,
    may_be_wrong="SyncBatchNorm adds up the samples of all ranks, which one process does not show",
    fix=Fix("GroupNorm or LayerNorm", overrides=("data.batch_size=32",)),
    thresholds={
        "min_norm_samples": Threshold(
            3,
            "a variance that is estimated from n values has a relative standard deviation of sqrt(2/(n-1)): 141 % of 2",
            factor=1.5,
        )
    },
    faulty=normed(samples=2),
    healthy=normed(samples=4),
)
