"""Meetings of all ranks on a process group of their own, never on the one that training uses.

So a rank that is elsewhere is noticed before its collectives are taken for those of another step.
"""

import time
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from training_checklist.engines.places import of_hooks
from training_checklist.experiments.distributed.peers import Parted, Peers
from training_checklist.experiments.distributed.presence import Sign
from training_checklist.experiments.distributed.stages import LATE, Stage, stage_of
from training_checklist.finding import NOWHERE
from training_checklist.lab.ranks import Apart, LoneCollective
from training_checklist.lightning import LightningModule

POLL = 0.002  # seconds
LOOK = 0.25  # seconds between two looks at what the other ranks say
STUCK = 3.0  # seconds that a rank is seen in one collective, of which others know nothing, before that counts
DDP = "torch/nn/parallel/distributed.py"
COLLECTIVES = ("torch/distributed/", DDP)  # where a rank waits for all others
DECIDE = ("on_train_batch_start", "training_step")  # hooks by which a rank may go a way of its own


class Meetings:
    """Has all ranks meet, each of which waits for the others as long as `peers` has it."""

    def __init__(self, peers: Peers, pl_module: LightningModule) -> None:
        self.peers = peers
        self.hooks = of_hooks(pl_module, DECIDE)
        self.group = distributed.new_group(backend="gloo", timeout=timedelta(seconds=peers.timeout))
        self.world_size = distributed.get_world_size()
        self.count = 0
        peers.trains = True

    def meet(self, stage: Stage, payload: Any = None) -> list[Any]:
        """Wait until every rank has come to `stage` and return what each of them brings.

        Raises:
            Parted: a rank does not come, or is at another place of training.
        """
        presence = self.peers.presence
        presence.reach(str(stage))
        calls, seconds = presence.waited
        # Lightning goes on where its own broadcast of a signal has failed.
        if seconds > self.peers.limit and any(place in calls for place in COLLECTIVES) and self.peers.behind():
            raise Parted(self.peers.hung(self.peers.behind()[0]))
        own = torch.tensor(stage.numbers())
        found = [torch.empty_like(own) for _ in range(self.world_size)]
        answers: list[Any] = [None] * self.world_size
        try:
            self._wait(distributed.all_gather(found, own, self.group, async_op=True), stage)
            stages = [stage_of(numbers) for numbers in torch.stack(found).tolist()]
            if len(set(stages)) > 1:
                raise Parted(self._apart(stages))
            if payload is not None:
                distributed.all_gather_object(answers, payload, self.group)
        except RuntimeError as error:
            raise Parted(self.peers.lost(str(error))) from error
        self.count += 1
        return answers

    def _wait(self, work: distributed.Work, stage: Stage) -> None:
        """Wait for the others, as long as they can come."""
        looked_at = time.monotonic()
        stuck_at: float | None = None
        while not work.is_completed():
            time.sleep(POLL)
            if time.monotonic() - looked_at < LOOK:
                continue
            looked_at = time.monotonic()
            if self.peers.gone() is not None:
                raise Parted(self.peers.lost(self.peers.gone() or ""))
            # It waits for this rank, which waits for it.
            stuck = [sign for sign in self.peers.behind() if any(place in sign.calls for place in COLLECTIVES)]
            stuck_at = (stuck_at or looked_at) if stuck else None
            if stuck_at is not None and looked_at - stuck_at > STUCK:
                raise Parted(self._locked(stuck[0], stage))
        work.wait()

    def _apart(self, stages: list[Stage]) -> Apart:
        """Return what it means that ranks meet at different places."""
        ahead = max(range(len(stages)), key=lambda rank: stages[rank].order())
        early = next((rank for rank, stage in enumerate(stages) if stage.phase in LATE), None)
        told = "; ".join(f"rank {rank} is at {stage}, after {stage.step} steps" for rank, stage in enumerate(stages))
        return Apart(ahead if early is None else early, told, early is not None, self.hooks)

    def _locked(self, sign: Sign, stage: Stage) -> Apart | LoneCollective:
        """Return what it means that another rank is in a collective which this one does not come to."""
        rank = self.peers.rank
        told = f"rank {rank} is at {stage}; rank {sign.rank}, after {sign.stage}, waits for it in {sign.calls}"
        if DDP in sign.calls or sign.at == NOWHERE:  # DDP's or Lightning's own
            return Apart(rank, told, stage.phase in LATE, self.hooks)
        return LoneCollective(sign.rank, sign.at, told)
