import time
from datetime import timedelta
from typing import Any

from torch import Tensor, distributed

from training_checklist.instruments import Example, FailedCollective, Ranks, Small, WrongCollective, loader
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

TEST = "-m training_checklist.experiments.distributed.network does the same without this project"
INTERFACES = "with several network interfaces GLOO_SOCKET_IFNAME=lo or NCCL_SOCKET_IFNAME name the right one"


def detect(ranks: Ranks, limits: Limits) -> Hits:
    event = ranks.end
    if not isinstance(event, (WrongCollective, FailedCollective)):
        return
    bare = f"torchrun --nproc-per-node {event.world_size} {TEST}"
    if isinstance(event, WrongCollective):
        place = Place(rank=str(event.rank), note=event.stage)
        yield Hit(event.what, place, "gradients would be averaged as wrongly", Fix(bare))
    elif event.tested:
        yield Hit(
            f"a collective of rank {event.rank} failed after {event.after}: {event.error}; {event.others}",
            event.line.beside(rank=str(event.rank), batch=ranks.batch),
        )
    else:
        yield Hit(
            f"the ranks cannot talk to each other: {event.error}",
            Place(rank=str(event.rank), note=event.after),
            "nothing can be trained in several processes without a network between them",
            Fix(f"{bare}; {INTERFACES}"),
        )


class Waiting(Small):
    """Waits at a barrier, for less time than the other rank needs."""

    seconds = 0.05

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        time.sleep(0.5 * self.global_rank * (batch_idx == 1))
        distributed.monitored_barrier(timeout=timedelta(seconds=self.seconds if batch_idx == 1 else 20))
        return super().training_step(batch, batch_idx)


PROBE = Probe(
    question="Does every collective operation (such as all_reduce) succeed, and give the right value?",
    why="the network works, as its self-test shows: the ranks call different collectives, or one comes too late",
    fix=Fix(
        "call self.log(..., sync_dist=True), self.all_gather, metrics and torch.distributed on all ranks, in the same "
        "order"
    ),
    detect=detect,
    aliases=("distributed/no-network", "distributed/wrong-collective"),
    faulty=Example(Waiting, lambda: loader(4), item={"timeout": 3}),
    healthy=Example(type("Patient", (Waiting,), {"seconds": 20}), lambda: loader(4)),
)
