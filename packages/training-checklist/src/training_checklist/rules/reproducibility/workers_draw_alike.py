from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import WorkerDraws
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

FIX = Fix(
    "draw with torch.rand or numpy.random.rand: Lightning seeds those for each worker and epoch; a generator of one's "
    "own is to be made in worker_init_fn, from torch.initial_seed()"
)


def judge(draws: WorkerDraws, limits: Any) -> Iterator[Hit]:
    demand_draws(draws)
    (one, two), (again, two_again) = draws.first, draws.second
    if one == two and again == two_again:
        yield Hit(
            f"worker streams are identical: {len(one)} random draws in worker 0 and in worker 1 give the same samples, "
            f"and the loader has {draws.workers} workers",
            place_of(draws),
        )


def demand_draws(draws: WorkerDraws) -> None:
    if draws.obstacle:
        raise CannotJudge(draws.obstacle)
    if any(len(set(stream)) == 1 for stream in draws.first):
        raise CannotJudge("a sample is the same whenever it is read: nothing is random in the dataset")


def place_of(draws: WorkerDraws) -> Place:
    held = ", ".join(draws.generators) or f"worker_init_fn={draws.worker_init_fn}"
    return Place(loader="train_dataloader", note=held)


RULE = Rule(
    id="reproducibility/workers-draw-alike",
    item="reproducibility",
    question="Do the DataLoader's workers draw random numbers that differ from worker to worker?",
    why="each has a copy of one generator in one state, so that augmentation is that much less diverse",
    severity=FAILED,
    evidence=WorkerDraws,
    judge=judge,
    fix=FIX,
    faulty=lambda: WorkerDraws((["a", "b"], ["a", "b"]), (["a", "b"], ["a", "b"]), 2),
    healthy=lambda: WorkerDraws((["a", "b"], ["c", "d"]), (["e", "f"], ["g", "h"]), 2),
)
