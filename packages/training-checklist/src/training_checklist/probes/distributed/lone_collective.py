from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import Example, LoneCollective, Ranks, Small, loader
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(ranks: Ranks, limits: Limits) -> Hits:
    event = ranks.end
    if isinstance(event, LoneCollective):
        what = f"a collective that rank {event.rank} alone has called: {event.told}"
        yield Hit(what, event.line.beside(rank=str(event.rank), batch=ranks.batch))


class Gathering(Small):
    ranks = (0,)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if self.global_rank in self.ranks:
            self.all_gather(torch.ones(1))
        return super().training_step(batch, batch_idx)


PROBE = Probe(
    question="Does every rank call each collective operation (such as all_reduce)?",
    why="it waits for ever, or is answered by another collective of the others, with wrong values",
    fix=Fix(
        "call self.log(..., sync_dist=True), self.all_gather, metrics and torch.distributed on all ranks, not under "
        "`if rank == 0`"
    ),
    detect=detect,
    faulty=Example(Gathering, lambda: loader(4), item={"timeout": 3}),
    healthy=Example(type("Together", (Gathering,), {"ranks": (0, 1)}), lambda: loader(4)),
)
