"""Samples that stream from tar files (shards), each once an epoch, in an order that a resumed run finds again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, islice, repeat
from typing import Any

import numpy as np
from pytorch_lightning import Trainer
from torch.utils.data import Dataset, get_worker_info

from training_runs.errors import DataError
from training_runs.sampling.epoch_sampler import EpochSampler
from training_runs.sampling.seeded_dataset import drawing_by

Raw = dict[str, Any]  # the members of a sample by suffix, as bytes, and its name under __key__


class Shards(Dataset[Any]):
    """Samples in tar files of WebDataset's format, read one after the other: nothing is kept on disk.

    With a `ShardSampler`: the order of shards follows from (seed, epoch). Each rank and worker reads a stretch of that
    order, equally many samples whatever the sizes of the shards, and shuffles `buffer` samples of it at a time. With
    another sampler, or without: as they are stored, and fast only where what is asked for ascends.

    A resumed run has the same order where ranks, workers and batch size are the same; it opens no shard before the
    place where it stopped.

    Args:
        urls: of the shards: paths, or what WebDataset opens.
        sizes: how many samples each has.
        decode: makes a sample of its members.
        batch_size: of the loader.
        seed: of the order, and of what `decode` draws at random.
        buffer: how many samples, undecoded, are held to shuffle among.
    """

    def __init__(
        self,
        urls: Sequence[str],
        sizes: Sequence[int],
        decode: Callable[[Raw], Any],
        batch_size: int,
        seed: int = 0,
        buffer: int = 1000,
    ) -> None:
        self.urls, self.sizes, self.decode = list(urls), list(sizes), decode
        self.batch_size, self.seed, self.buffer = batch_size, seed, buffer
        self.world_size, self.rank = 1, 0
        self.ends = np.cumsum(self.sizes)
        self._close()

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Any:
        shard, following = np.searchsorted(self.ends, (index, self._index), side="right")
        if not (self._index <= index and shard == following):  # else what lies between is passed over, undecoded
            self._stored = self._samples(range(len(self.urls)), range(index, len(self)))
        self._index = index + 1
        return self.decode(next(raw for place, raw in self._stored if place == index))

    def __getitems__(self, keys: Sequence[int | tuple[int, int]]) -> list[Any]:
        return [self._of_epoch(*key) if isinstance(key, tuple) else self[key] for key in keys]

    def __getstate__(self) -> dict[str, Any]:
        self._close()
        return self.__dict__

    def _close(self) -> None:
        """Forget the streams that are open, and what each would yield."""
        self._stored: Iterator[tuple[int, Raw]] = iter(())
        self._index = len(self)
        self._shuffled: Iterator[Any] = iter(())
        self._place: tuple[int, int] | None = None

    def _of_epoch(self, epoch: int, place: int) -> Any:
        """Return the sample at a place of this rank's epoch; places come batch by batch, a batch a worker in turn."""
        info = get_worker_info()
        workers = 1 if info is None else info.num_workers
        batch, within = divmod(place, self.batch_size)
        worker = batch % workers  # not this worker's number: a resumed epoch begins with worker 0, whatever its batch
        mine = batch // workers * self.batch_size + within
        if self._place != (epoch, mine):
            self._shuffled = self._from(epoch, worker, workers, mine)
        self._place = (epoch, mine + 1)
        return next(self._shuffled)

    def _from(self, epoch: int, worker: int, workers: int, start: int) -> Iterator[Any]:
        """Yield a worker's samples of an epoch from the one at `start` on."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.urls))
        first, count = self._stretch(worker, workers)
        block = start // self.buffer * self.buffer
        stream = self._samples(order, range(first + block, first + count))
        while held := list(islice(stream, self.buffer)):
            shuffled = np.random.default_rng([self.seed, epoch, first + block]).permutation(len(held))
            for each in shuffled[max(0, start - block) :]:
                place, raw = held[each]
                with drawing_by(self.seed, epoch, place):
                    sample = self.decode(raw)
                yield sample
            block += self.buffer

    def _stretch(self, worker: int, workers: int) -> tuple[int, int]:
        """Return where in the epoch's order a worker of this rank begins, and how many samples it reads."""
        here = -(-len(self) // self.world_size)
        batches = -(-here // self.batch_size)
        counts = [len(range(each, batches, workers)) * self.batch_size for each in range(workers)]
        if batches:
            counts[(batches - 1) % workers] -= batches * self.batch_size - here  # the last batch may be smaller
        return self.rank * here + sum(counts[:worker]), counts[worker]

    def _samples(self, order: Sequence[int], wanted: range) -> Iterator[tuple[int, Raw]]:
        """Yield the samples at the places `wanted` of all, shards being in `order`, with their places."""
        ends = [0, *accumulate(self.sizes[shard] for shard in order)]
        for lap in (0, len(self)):  # past the end the order begins again: every rank has as many samples
            for shard, start, end in zip(order, ends, ends[1:], strict=False):
                low, high = max(wanted.start - lap, start), min(wanted.stop - lap, end)
                if low < high:
                    yield from self._stretch_of(shard, low, low - start, high - start)

    def _stretch_of(self, shard: int, place: int, start: int, end: int) -> Iterator[tuple[int, Raw]]:
        count = 0
        for count, raw in enumerate(islice(read_shard(self.urls[shard]), start, end), start=1):
            yield place + count - 1, raw
        if count < end - start:
            raise DataError(f"{self.urls[shard]} has {start + count} samples where {self.sizes[shard]} are expected")


class ShardSampler(EpochSampler):
    """Goes through the epochs of `Shards`: which samples those are, each worker finds out."""

    def __init__(self, dataset: Shards, batch_size: int, seed: int, trainer: Trainer | None) -> None:
        super().__init__(dataset, batch_size, seed, trainer)
        dataset.world_size, dataset.rank = self.num_replicas, self.rank

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(repeat(self.epoch), range(self.start, self.num_samples))


def read_shard(url: str) -> Iterator[Raw]:
    from webdataset.gopen import gopen  # an extra of this package
    from webdataset.tariterators import group_by_keys, tar_file_expander

    with closing(gopen(url)) as stream:  # also where the rest is not wanted any more
        yield from group_by_keys(tar_file_expander([{"url": url, "stream": stream}]))
