"""Samples from shards of unequal sizes: each once an epoch over ranks and workers, found again by a resumed run."""

import io
import random
import tarfile
from types import SimpleNamespace

import pytest
from torch.utils.data import DataLoader

pytest.importorskip("webdataset")

SIZES = (11, 1, 23, 7, 17)  # 59


@pytest.fixture
def urls(tmp_path):
    number = 0
    for shard, size in enumerate(SIZES):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for _ in range(size):
                member = tarfile.TarInfo(f"{number:04}.txt")
                content = str(number).encode()
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
                number += 1
    return [str(tmp_path / f"{shard}.tar") for shard in range(len(SIZES))]


def decode(raw) -> tuple[int, float]:
    return int(raw["txt"]), random.random()


def collate(samples: list) -> list:
    return samples


def trainer(world_size: int, rank: int, epoch: int = 0, batches: int = 0) -> SimpleNamespace:
    """What a Trainer says that is at a batch of an epoch."""
    progress = SimpleNamespace(current=SimpleNamespace(processed=epoch))
    batch_progress = SimpleNamespace(current=SimpleNamespace(processed=batches))
    loop = SimpleNamespace(epoch_loop=SimpleNamespace(batch_progress=batch_progress))
    loop.epoch_progress, loop.restarting = progress, batches > 0
    return SimpleNamespace(world_size=world_size, global_rank=rank, fit_loop=loop)


def epoch(urls, trainer=None, number: int = 0, seed: int = 3, workers: int = 0, batch_size: int = 4) -> list[list]:
    """The batches of one epoch of one rank."""
    from training_runs.sampling.shards import Shards, ShardSampler

    dataset = Shards(urls, SIZES, decode, batch_size, seed, buffer=5)
    sampler = ShardSampler(dataset, batch_size, seed, trainer)
    sampler.set_epoch(number)
    return [*DataLoader(dataset, batch_size, sampler=sampler, num_workers=workers, collate_fn=collate)]


def numbers(batches) -> list[int]:
    return [number for batch in batches for number, _ in batch]


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_every_sample_is_in_every_epoch_once(urls, workers):
    assert sorted(numbers(epoch(urls, workers=workers))) == list(range(59))


def test_two_ranks_of_two_workers_share_uneven_shards(urls):
    ranks = [epoch(urls, trainer(2, rank), workers=2) for rank in (0, 1)]
    assert [list(map(len, batches)) for batches in ranks] == [[4] * 7 + [2]] * 2  # as many steps, of as many samples
    seen = [number for batches in ranks for number in numbers(batches)]
    assert set(seen) == set(range(59))
    assert len(seen) == 60  # 59 do not divide by 2: one comes twice


def test_order_follows_from_seed_and_epoch_alone(urls):
    assert epoch(urls, seed=1, number=2) == epoch(urls, seed=1, number=2)
    assert numbers(epoch(urls, seed=1, number=2)) != numbers(epoch(urls, seed=1, number=3))
    assert numbers(epoch(urls, seed=1, number=2)) != numbers(epoch(urls, seed=2, number=2))


@pytest.mark.parametrize("batches", range(1, 8))
@pytest.mark.parametrize("workers", [0, 2])
def test_resumed_epoch_goes_on_with_the_same_batches_and_the_same_random_numbers(urls, workers, batches):
    whole = epoch(urls, trainer(2, 1, epoch=4), number=4, workers=workers)
    assert epoch(urls, trainer(2, 1, epoch=4, batches=batches), number=4, workers=workers) == whole[batches:]


def test_samples_can_be_had_by_their_index_in_any_order(urls):
    from training_runs.sampling.shards import Shards

    dataset = Shards(urls, SIZES, decode, batch_size=4)
    for index in (0, 1, 5, 12, 3, 58, 57, 11, 12, 34, 40):
        assert dataset[index][0] == index


def test_shard_with_fewer_samples_than_its_index_says_is_an_error_that_names_it(urls):
    from training_runs.errors import DataError
    from training_runs.sampling.shards import Shards

    dataset = Shards(urls[:2], (12, 1), decode, batch_size=4)
    with pytest.raises(DataError, match=r"0\.tar has 11 samples where 12 are expected"):
        [dataset[index] for index in range(13)]
