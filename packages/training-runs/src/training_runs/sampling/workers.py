import os
import signal
import sys
from multiprocessing.queues import Queue
from typing import Any

from lightning_fabric.utilities.seed import pl_worker_init_function

from training_runs.launching.parent import STOPS, TIME_LIMIT


def outlive_stop(worker_id: int) -> None:
    """Leave it to the process that trains to stop in order: whoever asks a whole group to stop asks workers too.

    A `worker_init_fn` that seeds as Lightning's does. A second one ends the worker; so does a batch that cannot be
    handed over, which the process that trains would wait for without an end.
    """
    for number in (signal.SIGINT, *TIME_LIMIT):
        signal.signal(number, signal.SIG_IGN)
    for number in STOPS:
        signal.signal(number, lambda number, frame: signal.signal(number, signal.SIG_DFL))
    Queue._on_queue_feeder_error = staticmethod(end_worker)  # Python's own drops the batch; in this process alone
    pl_worker_init_function(worker_id)


def end_worker(error: BaseException, batch: Any) -> None:
    """End this process, which torch says of a worker in the process that trains."""
    print(
        f"a worker cannot hand over a batch ({type(error).__name__}: {error}); where /dev/shm is full, give it more "
        "room (docker run --shm-size=8g), or use data.num_workers=0",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)  # in a thread of the queue: sys.exit would end that alone
