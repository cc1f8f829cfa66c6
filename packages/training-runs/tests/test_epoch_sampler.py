from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from training_runs.sampling.epoch_sampler import EpochSampler
from training_runs.sampling.seeded_dataset import SeededDataset


def trainer_at(epoch: int, batch: int | None = None) -> SimpleNamespace:
    """A Trainer that is resumed before an epoch, or amid it."""
    progress = SimpleNamespace(current=SimpleNamespace(processed=epoch))
    batches = SimpleNamespace(batch_progress=SimpleNamespace(current=SimpleNamespace(processed=batch or 0)))
    loop = SimpleNamespace(epoch_progress=progress, epoch_loop=batches, restarting=batch is not None)
    return SimpleNamespace(world_size=1, global_rank=0, fit_loop=loop)


def order(trainer=None, epoch: int | None = None, dataset=range(20)) -> list:
    sampler = EpochSampler(dataset, batch_size=3, seed=1, trainer=trainer)
    if epoch is not None:
        sampler.set_epoch(epoch)
    return list(sampler)


def test_order_is_known_before_lightning_tells_the_epoch():
    assert order(trainer_at(5)) == order(epoch=5)
    assert order(trainer_at(5)) != order(epoch=0)


def test_order_amid_an_epoch_is_the_rest_of_it():
    assert order(trainer_at(5, batch=4)) == order(epoch=5)[12:]


def test_the_next_epoch_is_whole():
    assert order(trainer_at(5, batch=4), epoch=6) == order(epoch=6)


def test_length_is_that_of_the_epoch():
    assert len(EpochSampler(range(20), 3, 1, trainer_at(5, batch=4))) == 20


class Random(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.rand(2)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_draws_the_same_wherever_it_is_loaded(workers):
    dataset = SeededDataset(Random(), seed=1)
    whole = list(DataLoader(dataset, 3, sampler=EpochSampler(dataset, 3, 1, trainer_at(5))))
    sampler = EpochSampler(dataset, 3, 1, trainer_at(5, batch=4))
    rest = list(DataLoader(dataset, 3, sampler=sampler, num_workers=workers))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(rest, whole[4:], strict=True))


def test_a_sample_draws_anew_in_every_epoch_and_from_nobody_else():
    dataset = SeededDataset(Random(), seed=1)
    before = torch.get_rng_state()
    assert not torch.equal(dataset[1, 7], dataset[2, 7])
    assert not torch.equal(dataset[1, 7], dataset[1, 8])
    assert torch.equal(torch.get_rng_state(), before)
