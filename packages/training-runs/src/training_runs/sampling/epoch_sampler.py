import warnings
from collections.abc import Iterator
from itertools import repeat

import numpy as np
from pytorch_lightning import Trainer
from torch.utils.data import Dataset, DistributedSampler

from training_runs.sampling.permutation import Permutation
from training_runs.sampling.seeded_dataset import SeededDataset

SHUFFLE = "feistel"  # of what checkpoints were written under: another order cannot be gone on with amid an epoch
BLOCK = 16384  # indices computed at once: 0.1 us each, as of a stored list; a tenth as many take twice that


class EpochSampler(DistributedSampler):
    """Shuffles by (seed, epoch) and nothing else, and goes on amid the epoch where a resumed Trainer does.

    To be made in `train_dataloader`: with workers, the first batches are loaded before Lightning tells the epoch.
    For one process too: its order does not depend on how many random numbers were drawn before. It is computed where it
    is read: a set of 10^8 samples begins as soon as one of 10^3, and takes as little memory.

    Args:
        dataset: what is sampled; a `SeededDataset` is given (epoch, index).
        batch_size: of the loader.
        seed: one for all ranks.
        trainer: None outside of training.
    """

    def __init__(self, dataset: Dataset, batch_size: int, seed: int, trainer: Trainer | None) -> None:
        world_size, rank = (1, 0) if trainer is None else (trainer.world_size, trainer.global_rank)
        super().__init__(dataset, world_size, rank, shuffle=True, seed=seed)
        self.resumed_epoch, self.resumed_at = 0, 0
        if trainer is not None:
            loop = trainer.fit_loop
            self.resumed_epoch = self.epoch = loop.epoch_progress.current.processed
            if loop.restarting:  # amid an epoch
                self.resumed_at = loop.epoch_loop.batch_progress.current.processed * batch_size
                # Lightning knows loaders that save a state. This order is known without one.
                warnings.filterwarnings("ignore", message=".*your dataloader is not resumable")

    def __iter__(self) -> Iterator[int | tuple[int, int]]:
        indices = self._indices(Permutation(len(self.dataset), self.seed, self.epoch), self.start)
        return zip(repeat(self.epoch), indices) if isinstance(self.dataset, SeededDataset) else indices

    def _indices(self, permutation: Permutation, start: int) -> Iterator[int]:
        for begin in range(start, self.num_samples, BLOCK):
            own = np.arange(begin, min(begin + BLOCK, self.num_samples)) * self.num_replicas + self.rank
            yield from permutation[
                own % permutation.length
            ].tolist()  # the first ones again, until all ranks have enough

    @property
    def start(self) -> int:
        """The sample of this rank with which the epoch begins, or goes on."""
        return self.resumed_at if self.epoch == self.resumed_epoch else 0
