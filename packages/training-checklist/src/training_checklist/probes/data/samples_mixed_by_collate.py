import torch
from torch.utils.data import DataLoader, default_collate

from training_checklist.instruments import Data, Split, hooks_of, labelled, mixed_by_collate, on_datasets
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, each_held_out

HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    by = hooks_of(data.trainer, data.trainer.lightning_module, HOOKS)
    for place, number in mixed_by_collate(data, split).items():
        yield Hit(
            f"{place} of a sample depends on the other samples of its batch: alone, each of {number} has other "
            "values than together",
            (by if by.file else split.place).beside(loader=split.place.loader, note=place),
        )


def collated(reduce: bool) -> DataLoader:
    def collate(samples: list) -> list[torch.Tensor]:
        inputs, labels = default_collate(samples)
        return [inputs - inputs.mean(0) if reduce else inputs - 1, labels]

    return DataLoader(labelled(), 16, collate_fn=collate)


PROBE = Probe(
    question="Do collate_fn and transfer hooks return the same values of a sample, whichever samples are in its batch?",
    why="what the network is given changes with batch size, order and the last batch; one sample alone means nothing",
    severity=WARNING,
    fix=Fix("use statistics of the whole training set in collate_fn and in transfer hooks, not those of the batch"),
    detect=detect,
    faulty=on_datasets(held_out=lambda: collated(reduce=True)),
    healthy=on_datasets(held_out=lambda: collated(reduce=False)),
)
