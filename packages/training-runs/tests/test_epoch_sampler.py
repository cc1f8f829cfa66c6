import tracemalloc
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from training_config.errors import ConfigError
from training_runs.checkpoints.last_checkpoint import check_order
from training_runs.sampling.epoch_sampler import SHUFFLE, EpochSampler
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


@pytest.mark.parametrize("samples", [20, 21, 2, 40_000])
def test_ranks_share_an_epoch_out(samples):
    trainers = [trainer_at(0) for _ in range(3)]
    for rank, trainer in enumerate(trainers):
        trainer.world_size, trainer.global_rank = 3, rank
    read = [order(trainer, dataset=range(samples)) for trainer in trainers]
    assert len({len(each) for each in read}) == 1
    assert set().union(*read) == set(range(samples))
    assert sum(map(len, read)) < samples + 3


def test_an_epoch_of_any_length_begins_and_goes_on_at_once():
    tracemalloc.start()
    for trainer in (trainer_at(3), trainer_at(3, batch=30_000_000)):
        next(iter(EpochSampler(range(10**8), 3, 1, trainer)))
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()


def test_an_epoch_that_another_version_has_shuffled_is_not_gone_on_with():
    loader = DataLoader(range(20), sampler=EpochSampler(range(20), 3, 1, None))
    check_order(loader, {"moment": "epoch"})
    check_order(loader, {"moment": "batch", "shuffle": SHUFFLE})
    check_order(DataLoader(range(20), shuffle=True), {"moment": "batch"})
    with pytest.raises(ConfigError, match="amid an epoch that another version of training-runs has shuffled"):
        check_order(loader, {"moment": "batch"})


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
