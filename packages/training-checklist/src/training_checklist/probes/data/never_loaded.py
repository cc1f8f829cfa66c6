from torch.utils.data import DataLoader

from training_checklist.instruments import Data, batches, labelled, on_datasets
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    for split in data.splits:
        loader, number = split.loader, batches(split)
        left = (split.samples or 0) - number * (loader.batch_size or 0)
        # A share of n samples has a standard error of at most 1 / (2 * sqrt(n)).
        is_much = 2 * left > limits.max_left * (split.samples or 0) ** 0.5
        if not (loader.drop_last and number and loader.batch_size and is_much):
            continue
        order = split.order()
        if order is not None and order == split.order() == sorted(order):
            yield Hit(
                f"{left} of {split.samples} samples of {split.name} are in no batch of any epoch: drop_last=True, "
                f"batch_size={loader.batch_size}, always in the same order",
                split.place,
            )


PROBE = Probe(
    question="Is every sample loaded in some epoch, and none always left out by drop_last=True?",
    why="they are neither learned from nor measured, and they are always the same ones",
    severity=WARNING,
    fix=Fix("drop_last=False for validation and testing; shuffle=True for training"),
    thresholds={
        "max_left": Threshold(
            1.0,
            "standard errors of a share of all samples: more samples that are left out can move a metric by more",
            factor=6,
            healthy=on_datasets(held_out=lambda: DataLoader(labelled(33), 16, drop_last=True)),
        )
    },
    detect=detect,
    faulty=on_datasets(held_out=lambda: DataLoader(labelled(28), 16, drop_last=True)),
    healthy=on_datasets(held_out=lambda: DataLoader(labelled(28), 16, drop_last=True, shuffle=True)),
)
