import os
from typing import Any

from torch import Tensor

from training_checklist.instruments import EndedRank, Example, LeftRank, MissingRank, Ranks, Small, loader
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

# An exit code is the program's own: whoever kills a process does so by a signal.
ITSELF = Fix("look at what this rank has printed: the program, or a library, has ended it with that exit code itself")


def detect(ranks: Ranks, limits: Limits) -> Hits:
    event = ranks.end
    if isinstance(event, MissingRank):
        yield Hit(
            f"rank {event.rank} of {event.world_size} has not started: {event.waiting[0]} waited for it at "
            f"{event.waiting[1]}",
            Place(rank=str(event.rank), note="before its callbacks were built"),
            "a process group forms when all ranks are there",
            Fix(
                "this gives a slow start more time; look at what the rank has printed",
                overrides=("checks.distributed.rendezvous_timeout=120",),
            ),
        )
    elif isinstance(event, LeftRank):
        yield Hit(
            f"rank {event.rank} has trained and comes to nothing further, and rank {event.waiting} waits for it",
            event.line.beside(rank=str(event.waiting)),
            "fit, validate, test and predict of a Trainer with several processes begin when all of its ranks call them",
            Fix("call it on every rank, or end the process group and give one rank a Trainer(devices=1) of its own"),
        )
    elif isinstance(event, EndedRank):
        rank, stage = event.waiting
        yield Hit(
            f"rank {event.rank} {event.how}; it had come to {event.after}, and rank {rank} waits at {stage}",
            Place(rank=str(event.rank), note=f"after {event.after}"),
            fix=None if event.code is None else ITSELF,
        )


class Ending(Small):
    rank = 1

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if batch_idx == 1 and self.global_rank == self.rank:
            os._exit(3)
        return super().training_step(batch, batch_idx)


PROBE = Probe(
    question="Do the processes of all ranks start, and run until training ends?",
    why="the others wait for it for half an hour, unless something ends them",
    fix=Fix("if nobody has killed it, memory may have run out (dmesg | tail -n 20)", items=("memory",)),
    detect=detect,
    aliases=("distributed/rank-missing",),
    faulty=Example(Ending, lambda: loader(4), item={"timeout": 3}),
    healthy=Example(type("Staying", (Ending,), {"rank": 2}), lambda: loader(4)),
)
