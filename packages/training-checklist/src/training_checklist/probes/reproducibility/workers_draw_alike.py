from collections.abc import Callable
from typing import Any

import numpy
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.instruments import Example, MappedDataset, SeededRuns, worker_draws
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    for draws in worker_draws(seeded):
        if all(one == two for one, two in (draws.first, draws.second)):
            yield Hit(
                f"worker streams are identical: {len(draws.first[0])} random draws in worker 0 and in worker 1 give "
                f"the same samples, and the loader has {draws.workers} workers",
                draws.place,
            )
        elif draws.second == draws.first and draws.first[0] != draws.first[1] and not draws.persistent:
            yield Hit(
                "every epoch draws the same augmentation: the workers begin in the same state each time",
                draws.place,
                "the network sees each sample in one version only, as if it were not augmented",
                severity=WARNING,
            )


def loading(draws: Callable[[], Callable[[], float]], **options: Any) -> Example:
    """Make one whose two workers add what a function draws, which is made with the dataset."""

    def noisy() -> MappedDataset:
        draw = draws()

        def add(index: int, inputs: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
            return inputs + draw(), label

        return MappedDataset(add)

    brief = {"max_epochs": 1, "limit_train_batches": 1}
    return Example(loader=lambda: DataLoader(noisy(), 16, num_workers=2, **options), trainer=brief)


PROBE = Probe(
    question="Do the DataLoader's workers draw random numbers that differ from worker to worker and from epoch to "
    "epoch?",
    why="each has a copy of one generator in one state, so that augmentation is that much less diverse",
    fix=Fix(
        "draw with torch.rand or numpy.random.rand: Lightning seeds those for each worker and epoch; a generator of "
        "one's own is to be made in worker_init_fn, from torch.initial_seed(), which is another one in each epoch"
    ),
    aliases=("reproducibility/epochs-draw-alike",),
    detect=detect,
    faulty=loading(lambda: numpy.random.default_rng(0).random),
    also_faulty=(loading(lambda: numpy.random.rand, worker_init_fn=numpy.random.seed),),
    healthy=loading(lambda: numpy.random.rand),
)
