import torch

from training_checklist.instruments import TOGETHER, Data, MappedDataset, by_index, on_datasets, seeds_of
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    split = by_index(data.train, least=TOGETHER)
    seen = [seeds_of(split, data.trainer, index, seed=index)[0] for index in split.chosen(TOGETHER)]
    for line, seed in seen[0].items():
        if all(each.get(line) == seed for each in seen):
            yield Hit(
                f"for each of {TOGETHER} samples a generator of random numbers begins anew, with seed {seed} each time",
                line.beside(loader="train_dataloader"),
            )
            return


def noisy(seed: int) -> MappedDataset:
    return MappedDataset(
        lambda index, x, y: (x + torch.randn(8, generator=torch.Generator().manual_seed(seed * index)), y)
    )


PROBE = Probe(
    question="Does random augmentation draw different numbers for different samples?",
    why="augmentation does the very same to every sample in every epoch: it is a fixed change, and no augmentation",
    fix=Fix("draw from torch's own generator, which each worker seeds; or make one generator, outside of __getitem__"),
    detect=detect,
    faulty=on_datasets(lambda: noisy(0)),
    healthy=on_datasets(lambda: noisy(1)),
)
