from torch.utils.data import DataLoader

from training_checklist.instruments import Data, batches, labelled, on_datasets
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    for split in data.splits if data.has_roles else data.loaders:
        if batches(split) == 0 and (split.samples or split.stage == "train"):
            yield Hit(
                f"{split.name} has no batch: {split.samples or 0} samples, batch_size={split.loader.batch_size}, "
                f"drop_last={split.loader.drop_last}",
                split.place,
            )


PROBE = Probe(
    question="Does every DataLoader yield at least one batch?",
    why="nothing is done with its samples, and the run ends as if it had been",
    fix=Fix("a batch_size of at most the number of samples, or drop_last=False"),
    detect=detect,
    faulty=on_datasets(lambda: DataLoader(labelled(10), 16, drop_last=True)),
    healthy=on_datasets(lambda: DataLoader(labelled(10), 16)),
)
