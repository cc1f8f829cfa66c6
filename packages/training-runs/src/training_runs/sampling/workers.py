import signal

from lightning_fabric.utilities.seed import pl_worker_init_function


def outlive_stop(worker_id: int) -> None:
    """Leave it to the process that trains to stop in order: whoever asks a whole group to stop asks workers too.

    A `worker_init_fn` that seeds as Lightning's does. A second SIGTERM ends the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    pl_worker_init_function(worker_id)
