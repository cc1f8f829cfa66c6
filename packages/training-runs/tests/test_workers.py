import subprocess
import sys

import pytest
from torch.utils.data import DataLoader, Dataset
from training_runs.sampling.workers import outlive_stop


class Full:
    """Cannot be handed to another process, as a batch cannot where /dev/shm is full."""

    def __reduce__(self):
        raise OSError(28, "No space left on device")


class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return Full()


def test_worker_that_cannot_hand_over_a_batch_ends_instead_of_being_waited_for(capfd):
    loader = DataLoader(Samples(), num_workers=1, collate_fn=list, worker_init_fn=outlive_stop)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iter(loader))
    assert "a worker cannot hand over a batch (OSError: [Errno 28] No space left on device); where /dev/shm" in (
        capfd.readouterr().err
    )


# As an iterator over a DataLoader is, which an error has kept from ending its workers.
LEFT = """
import signal, time
from multiprocessing import Event, Process
from pathlib import Path
import torch
from training_runs.start import entry_point

ready = Event()

def last() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.set()
    time.sleep(600)

def leave() -> None:
    Process(target=last, daemon=True).start()
    ready.wait()

entry_point.run(leave, Path("conf"), "train")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is forked needs no pickle")
def test_workers_that_are_left_do_not_keep_a_command_from_its_end():
    assert subprocess.run([sys.executable, "-c", LEFT], timeout=120).returncode == 0
