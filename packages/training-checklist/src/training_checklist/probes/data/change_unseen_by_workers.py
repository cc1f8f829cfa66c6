from torch.utils.data import DataLoader

from training_checklist.instruments import Changed, Example, Small, TwoEpochs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    for changed in run.epochs.between.changed:
        if changed.changes and changed.workers and changed.persistent:
            yield Hit(
                f"the training set is changed from one epoch to the next, {', '.join(changed.changes[:3])}, and its "
                f"{changed.workers} persistent workers keep the copies that they began with",
                changed.place,
            )


class Ramping(Small):
    """Augments more strongly from epoch to epoch."""

    persistent = True

    def train_dataloader(self) -> DataLoader:
        self.dataset = Changed(lambda index, inputs, label: (inputs, label))
        self.dataset.strength = 0.0
        return DataLoader(self.dataset, 16, num_workers=2, persistent_workers=self.persistent)

    def on_train_epoch_start(self) -> None:
        self.dataset.strength = 0.1 * self.current_epoch


PROBE = Probe(
    item="learning",
    question="Do the workers see what changes in the training set between epochs?",
    why="each worker has a copy of the dataset from when it was started: with persistent_workers=True, before the "
    "first epoch",
    fix=Fix("persistent_workers=False, or keep the value in shared memory: torch.tensor(0.0).share_memory_()"),
    detect=detect,
    faulty=Example(Ramping, None),
    healthy=Example(type("Renewed", (Ramping,), {"persistent": False}), None),
)
