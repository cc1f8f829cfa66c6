from torch.utils.data import DataLoader

from training_checklist.instruments import Data, batches, labelled, on_datasets
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    for split in data.splits:
        loader, number = split.loader, batches(split)
        left = (split.samples or 0) - number * (loader.batch_size or 0)
        # A share of n samples has a standard error of at most 0.5 / sqrt(n): more of them can move a metric by more.
        if not (loader.drop_last and number and loader.batch_size and left > 0.5 * split.samples**0.5):
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
    detect=detect,
    faulty=on_datasets(held_out=lambda: DataLoader(labelled(28), 16, drop_last=True)),
    healthy=on_datasets(held_out=lambda: DataLoader(labelled(28), 16, drop_last=True, shuffle=True)),
)
