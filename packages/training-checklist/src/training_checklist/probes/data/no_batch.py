from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from training_checklist.instruments import Data, batches, labelled, on_datasets, own_config
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    for split in data.splits if data.has_roles else data.loaders:
        if batches(split) == 0 and (split.samples or split.stage == "train" or is_to_be_tested(split.stage)):
            yield Hit(
                f"{split.name} has no batch: {split.samples or 0} samples, batch_size={split.loader.batch_size}, "
                f"drop_last={split.loader.drop_last}",
                split.place,
                fix=None if split.samples else Fix(f"give {split.name} samples"),
            )


def is_to_be_tested(stage: str) -> bool:
    """Whether the config asks for tests; a split that nobody asks for may be empty."""
    config = own_config()
    return stage == "test" and config is not None and OmegaConf.select(config, "test") is True


PROBE = Probe(
    question="Does every DataLoader yield at least one batch?",
    why="nothing is done with its samples, and the run ends as if it had been",
    fix=Fix("a batch_size of at most the number of samples, or drop_last=False"),
    detect=detect,
    faulty=on_datasets(lambda: DataLoader(labelled(10), 16, drop_last=True)),
    healthy=on_datasets(lambda: DataLoader(labelled(10), 16)),
)
