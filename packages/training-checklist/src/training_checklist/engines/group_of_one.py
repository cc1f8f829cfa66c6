"""A process group of one process, for code that asks for its rank where an item has left out the ranks beside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import distributed

from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.lightning import Trainer


@contextmanager
def groups_of_one() -> Iterator[Callable[[Trainer], None]]:
    """Return what has a Trainer of one device form a group, when and as a strategy of several does: before `setup`.

    A `DistributedSampler` and `torch.distributed.get_rank` work then as under DDP on one device.
    """
    formed = False

    def promise(trainer: Trainer) -> None:
        own = trainer.strategy.setup_environment

        def setup_environment() -> None:
            nonlocal formed
            pass_on(own)
            if not distributed.is_initialized():
                distributed.init_process_group(store=distributed.HashStore(), rank=0, world_size=1)
                formed = True

        if distributed.is_available():
            put(trainer.strategy, "setup_environment", setup_environment)

    try:
        yield promise
    finally:
        if formed and distributed.is_initialized():
            distributed.destroy_process_group()
