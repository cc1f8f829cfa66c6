"""Can the processes of a job talk to each other at all? Without any model or data, for two processes:

python -m torch.distributed.run --nproc-per-node 2 -m training_checklist.experiments.distributed.network
"""

import os
import time
from collections.abc import Callable
from datetime import timedelta

import torch
from torch import distributed

SECONDS = 20


class NetworkError(Exception):
    """A collective that ended without an error gave a wrong value."""


def self_test(device: torch.device, memory_mb: float, stage: Callable[[str], None]) -> str:
    """Run every kind of collective once on the default process group and return what was done, in one line.

    Args:
        stage: is told the name of each stage before it begins.

    Raises:
        NetworkError: a value is wrong.
        RuntimeError: a rank is missing, or the device has no memory.
    """
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    started = time.monotonic()

    stage("all-reduce")
    total = torch.tensor([rank + 1.0], device=device)
    distributed.all_reduce(total)
    expected = world_size * (world_size + 1) / 2
    if total.item() != expected:
        raise NetworkError(
            f"all-reduce of 1 to {world_size} gives {total.item():g} and not {expected:g} on rank {rank}"
        )

    stage("broadcast")
    token = torch.tensor([42.0 if rank == 0 else 0.0], device=device)
    distributed.broadcast(token, 0)
    if token.item() != 42:
        raise NetworkError(f"broadcast of 42 from rank 0 gives {token.item():g} on rank {rank}")

    stage("barrier")
    distributed.barrier(device_ids=[device.index] if device.type == "cuda" else None)
    seconds = time.monotonic() - started

    stage("memory")
    torch.ones(int(memory_mb * 2**18), device=device)
    free = f", {torch.cuda.mem_get_info(device)[0] / 2**30:.1f} GiB free" if device.type == "cuda" else ""
    return (
        f"rank {rank} of {world_size} OK: all-reduce {expected:g}, broadcast, barrier in {1000 * seconds:.0f} ms "
        f"over {distributed.get_backend()}; {memory_mb:g} MiB on {device}{free}"
    )


def main() -> None:
    """Run the self-test in a rank that torchrun has started."""
    rank = int(os.environ["RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)

    def say(name: str) -> None:
        print(f"rank {rank}: {name}", flush=True)

    say("rendezvous")
    distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(seconds=SECONDS))
    print(self_test(device, 16, say), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
