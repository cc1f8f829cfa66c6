"""Several processes that train one model: whether they can talk, keep step, agree, and share the data."""

import inspect
import os
import re
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from json import loads
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import torch
from hydra.core.hydra_config import HydraConfig
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from training_checklist.ending import CheckFailed
from training_checklist.engines.own_code import shorten
from training_checklist.experiments.distributed.network import NetworkError, self_test
from training_checklist.experiments.distributed.presence import Interrupted, Presence, Sign, is_dead, line_of
from training_checklist.experiments.distributed.shares import (
    DrawnIndices,
    Loader,
    describe,
    digest,
    flat,
    loaders_of,
    same_batches,
)
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import FAILED, Finding, Place, unsorted
from training_checklist.judging import cause as find
from training_checklist.lightning import LightningModule, Trainer, is_overridden, part
from training_checklist.reporting.ranks import rank_file

subprocess_script = part("strategies.launchers.subprocess_script")
POLL = 0.002  # seconds
LOOK = 0.25  # seconds between two looks at what the other ranks say
STUCK = 3.0  # seconds that a rank is seen in one collective, of which others know nothing, before that counts
GRACE = 4.0  # seconds for a rank that has failed to write down why; less than its launcher gives the others
NAMED = 5  # parameters that a finding names
SOURCE = re.compile(r"^\[[^\]]*\]:? ")  # of gloo, in front of what it says
# What a collective says that has lost a rank, or waited too long for one.
CONSEQUENCES = ("gloo", "NCCL", "closed by peer", "reset by peer", "Broken pipe", "imed out", "timeout", "Socket")
SKIPPED_STEP = "by returning None in distributed"  # Lightning 2.6 refuses it itself
ROUNDING = 1e-5  # relative, of a logged value
COLLECTIVES = ("torch/distributed/", "torch/nn/parallel/distributed.py")  # where a rank waits for all others

RENDEZVOUS = "rendezvous"
TRAINING_START, BATCH_START, BACKWARD, STEP, BATCH_END = (
    "start of training",
    "start of batch",
    "backward pass",
    "optimizer step",
    "end of batch",
)
VALIDATION_START, VALIDATION_METRICS, VALIDATION_END, EPOCH_END, TRAINING_END = (
    "start of validation",
    "last batch of validation",
    "end of validation",
    "end of epoch",
    "end of training",
)
PHASES = (
    TRAINING_START,
    BATCH_START,
    BACKWARD,
    STEP,
    BATCH_END,
    VALIDATION_START,
    VALIDATION_METRICS,
    VALIDATION_END,
    EPOCH_END,
    TRAINING_END,
)
LATE = PHASES[PHASES.index(VALIDATION_START) :]
# What runs between a meeting and the one before, and so can have changed parameters.
BEFORE = {
    BATCH_START: ("on_train_batch_end",),
    BACKWARD: ("on_train_batch_start", "training_step"),
    BATCH_END: (
        "backward",
        "on_after_backward",
        "on_before_optimizer_step",
        "configure_gradient_clipping",
        "optimizer_step",
        "configure_optimizers",
    ),
}
BEFORE_TRAINING = ("on_train_start", "on_train_epoch_start")
BEFORE_EPOCH = (
    "on_train_batch_end",
    "on_validation_start",
    "validation_step",
    "on_validation_epoch_end",
    "on_train_epoch_end",
    "on_train_epoch_start",
)


class Parted(CheckFailed):
    """The ranks cannot go on together."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.what)
        self.finding = finding


class Stage(NamedTuple):
    """Where in training a rank is."""

    epoch: int
    batch: int
    phase: str
    step: int

    def __str__(self) -> str:
        if self.phase in (BATCH_START, BACKWARD, STEP, BATCH_END):
            return f"the {self.phase} of batch {self.batch} in epoch {self.epoch}".replace(" batch of batch", " batch")
        return f"the {self.phase} {self.epoch}" if self.phase == EPOCH_END else f"the {self.phase}"


class Distributed(Experiment):
    """Fails where a rank is missing, ranks part, their parameters differ, some are unused, or they share data.

    The ranks meet at each hook on a process group of their own, never on the one that training uses: so a rank that
    is elsewhere is noticed before its collectives are taken for those of another step.

    Args:
        timeout: seconds that the ranks wait for one of them at a hook, and in any collective of training.
        rendezvous_timeout: seconds that they wait for one of them to start.
        prepare_timeout: seconds that they wait for prepare_data, for which Lightning itself waits for ever.
        tolerance: difference of a parameter between ranks, relative to its largest entry, that counts as rounding.
        memory_mb: what the network self-test allocates on each rank's device.
    """

    item = "distributed"
    shapes_run = True

    def __init__(
        self,
        timeout: float,
        rendezvous_timeout: float,
        prepare_timeout: float,
        tolerance: float,
        memory_mb: float,
    ) -> None:
        super().__init__()
        self.timeout, self.prepare_timeout = timeout, prepare_timeout
        self.tolerance, self.memory_mb = tolerance, memory_mb
        self.expected = 1
        self.limit = rendezvous_timeout  # of the collectives of training
        self.group: distributed.ProcessGroup | None = None
        self.children: list[Popen] = []
        self.drawn = DrawnIndices()
        self.batches: list[str] = []
        self.epoch_seen = False
        self.unreduced: list[str] = []
        self.monitors: dict[str, str] = {}  # names of logged values, and what looks at them
        self.agree = True
        self.used: set[str] = set()
        self.batch = -1
        self.meetings = 0
        self.presence: Presence | None = None
        self.patches = Patches(rendezvous_timeout, self._arrive, self.children)
        if HydraConfig.initialized():
            self.begin(Path(HydraConfig.get().runtime.output_dir))

    def begin(self, folder: Path) -> None:
        """Say from here on where this rank is, in `folder`, which all ranks share."""
        self.folder = folder
        self.presence = Presence(folder / "debug", self.rank, self._gone, GRACE)
        self.patches.__enter__()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":  # before some of them are dropped
            watching = [callback for callback in trainer.callbacks if getattr(callback, "monitor", None)]
            self.monitors = {callback.monitor: type(callback).__name__ for callback in watching}
        super().setup(trainer, pl_module, stage)
        if stage != "fit" or self.presence is None:
            return
        if self.world_size < 2 or not distributed.is_initialized():
            self.skip("one process only; trainer.devices=2 gives it a peer")
            self._end()
            return
        self.expected = self.world_size
        self.module = pl_module
        self._test_network(trainer)
        self.group = distributed.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout))
        self.drawn.__enter__()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.group is None:
            return
        model = trainer.strategy.model
        self.ddp = model if isinstance(model, DistributedDataParallel) else None
        ignored = getattr(self.ddp, "parameters_to_ignore", set())
        self.parameters = {
            name: parameter
            for name, parameter in pl_module.named_parameters()
            if name not in ignored and not isinstance(parameter, torch.nn.UninitializedParameter)
        }
        for name, parameter in self.parameters.items():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda _, name=name: self.used.add(name))
        self.loaders = loaders_of(trainer.train_dataloader)
        shares = self._meet(trainer, TRAINING_START, [describe(loader) for loader in self.loaders])
        self._judge_lengths(shares)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch = batch_idx
        self.used.clear()
        if self.group is None:
            return
        if not self.epoch_seen:
            self.batches.append(digest(batch))
        self._compare_parameters(trainer, pl_module, BATCH_START)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.group is not None:
            self._compare_parameters(trainer, pl_module, BACKWARD)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.group is not None and pl_module.automatic_optimization:
            self._judge_unused(trainer, pl_module)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        if self.group is None:
            return
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None and self.ddp is not None}
        answers = self._meet(trainer, STEP, fingerprint(gradients))
        if not self.unreduced:
            self.unreduced = differing(answers)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if self.group is None:
            return
        self._compare_parameters(trainer, pl_module, BATCH_END)
        if not pl_module.automatic_optimization and self.used:
            self._judge_unused(trainer, pl_module)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._meet(trainer, VALIDATION_START)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._meet(trainer, VALIDATION_METRICS)  # before Lightning averages what was logged

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        schedules = [config for config in trainer.lr_scheduler_configs if config.reduce_on_plateau and config.monitor]
        monitors = self.monitors | {config.monitor: type(config.scheduler).__name__ for config in schedules}
        values = {name: float(trainer.callback_metrics[name]) for name in monitors if name in trainer.callback_metrics}
        self._judge_monitored(self._meet(trainer, VALIDATION_END, values), monitors)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        share = None
        if self.group is not None and not self.epoch_seen:
            count = len(self.batches)
            share = self.batches, [self.drawn.of(loader, count) for loader in self.loaders]
        answers = self._meet(trainer, EPOCH_END, share)
        if answers and not self.epoch_seen:
            self.epoch_seen = True
            self._judge_shares(trainer, answers)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._meet(trainer, TRAINING_END)

    def conclude(self, folder: Path) -> None:
        if self.group is not None:
            self.seen = (
                f"{self.world_size} ranks kept step for {self.facts['steps']} steps ({self.meetings} meetings); "
                f"{self.facts['network']}"
            )
        self._end()
        if self.presence is not None:
            self.presence.remove()

    def explain(self, error: Exception) -> Finding | None:
        if self.presence is None:
            return None
        self.presence.settle()
        parted = find(error, Parted)
        if SKIPPED_STEP in str(error):
            parted = Parted(self._skipped())
        lost = find(error, Interrupted) or any(word in f"{type(error).__name__}: {error}" for word in CONSEQUENCES)
        finding = parted.finding if parted is not None else self._absent(str(error), error) if lost else None
        self._end()
        deadline = time.monotonic() + GRACE
        for child in self.children:
            while child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            if child.poll() is None:
                child.kill()
        return finding

    def _end(self) -> None:
        if self.presence is not None:
            self.presence.leave()
        self.patches.__exit__()
        self.drawn.__exit__()
        self.group = None

    def _arrive(self, world_size: int) -> float:
        """Wait for all ranks of this machine, and return the time-out of the group that is to form.

        Inside init_process_group nobody would notice that one of them has died.
        """
        self.expected = world_size
        self.presence.reach(RENDEZVOUS)
        if world_size not in (len(self.children) + 1, int(os.environ.get("LOCAL_WORLD_SIZE", "0"))):
            return self.limit
        deadline = time.monotonic() + self.patches.seconds
        while sum(sign.count > 0 for sign in self.presence.others().values()) < world_size - 1:
            if self._gone() is not None or time.monotonic() > deadline:
                raise Parted(self._absent(self._gone() or "time-out"))
            time.sleep(10 * POLL)
        self.limit = self.timeout
        return self.limit

    def _test_network(self, trainer: Trainer) -> None:
        def stage(name: str) -> None:
            self.presence.reach(f"{name} of the network self-test")

        try:
            line = self_test(trainer.strategy.root_device, self.memory_mb, stage)
        except NetworkError as error:
            raise Parted(
                unsorted(
                    FAILED,
                    str(error),
                    f"rank {self.rank}: {self.presence.sign.stage}",
                    "gradients would be averaged as wrongly",
                    f"the same without this project: {bare_test(self.world_size)}",
                )
            ) from None
        except RuntimeError as error:
            raise Parted(self._absent(str(error))) from error
        print(line, flush=True)
        self.facts["network"] = line.partition("OK: ")[2]

    def _meet(self, trainer: Trainer, phase: str, payload: Any = None) -> list[Any]:
        """Wait until every rank has come to `phase` and return what each of them brings; none outside a process group.

        Raises:
            Parted: a rank does not come, or is at another place of training.
        """
        if self.group is None:
            return []
        stage = Stage(trainer.current_epoch, self.batch, phase, trainer.global_step)
        self.presence.reach(str(stage))
        calls, seconds = self.presence.waited
        # Lightning goes on where its own broadcast of a signal has failed.
        if seconds > self.limit and any(place in calls for place in COLLECTIVES) and self._behind():
            raise Parted(self._hung(self._behind()[0]))
        own = torch.tensor([stage.epoch, stage.batch, PHASES.index(phase), stage.step])
        found = [torch.empty_like(own) for _ in range(self.world_size)]
        answers: list[Any] = [None] * self.world_size
        try:
            self._wait(distributed.all_gather(found, own, self.group, async_op=True), stage)
            stages = [Stage(e, batch, PHASES[index], step) for e, batch, index, step in torch.stack(found).tolist()]
            if len(set(stages)) > 1:
                raise Parted(self._apart(stages))
            if payload is not None:
                distributed.all_gather_object(answers, payload, self.group)
        except RuntimeError as error:
            raise Parted(self._absent(str(error))) from error
        self.meetings += 1
        self.facts["steps"] = trainer.global_step
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
            if self._gone() is not None:
                raise Parted(self._absent(self._gone() or ""))
            # It waits for this rank, which waits for it.
            stuck = [sign for sign in self._behind() if any(place in sign.calls for place in COLLECTIVES)]
            stuck_at = (stuck_at or looked_at) if stuck else None
            if stuck_at is not None and looked_at - stuck_at > STUCK:
                raise Parted(self._locked(stuck[0], stage))
        work.wait()

    def _behind(self) -> list[Sign]:
        return [sign for sign in self.presence.others().values() if sign.count < self.presence.sign.count]

    def _apart(self, stages: list[Stage]) -> Finding:
        """Return what it means that ranks meet at different places."""
        ahead = max(range(len(stages)), key=lambda rank: order(stages[rank]))
        early = next((rank for rank, stage in enumerate(stages) if stage.phase in LATE), None)
        places = "; ".join(f"rank {rank} is at {stage}, after {stage.step} steps" for rank, stage in enumerate(stages))
        return self._parted(places, ahead if early is None else early, stages[ahead].batch, early is not None)

    def _locked(self, sign: Sign, stage: Stage) -> Finding:
        """Return what it means that another rank is in a collective which this one does not come to."""
        places = f"rank {self.rank} is at {stage}; rank {sign.rank}, after {sign.stage}, waits for it in {sign.calls}"
        if COLLECTIVES[1] in sign.calls or not sign.at:  # DDP's or Lightning's own
            return self._parted(places, self.rank, stage.batch, stage.phase in LATE)
        return unsorted(
            FAILED,
            f"a collective that rank {sign.rank} alone has called: {places}",
            f"rank {sign.rank}: {sign.at}",
            "it waits for ever, or is answered by another collective of the others, with wrong values",
            "call self.log(..., sync_dist=True), self.all_gather, metrics and torch.distributed on all ranks, "
            "not under `if rank == 0`",
        )

    def _parted(self, places: str, rank: int, batch: int, ended: bool) -> Finding:
        hooks = ("on_train_batch_start", "training_step")
        where = " or ".join(places_of(self.module, hooks))
        return unsorted(
            FAILED,
            f"the ranks {'run different numbers of batches' if ended else 'have parted'}: {places}",
            f"rank {rank}: {'train_dataloader, trainer.should_stop, or ' if ended else ''}{where}, batch {batch}",
            "DDP averages gradients in each backward pass: a rank waits for ever, or gets those of another batch",
            "give all ranks as many batches (DistributedSampler, drop_last=True), and let all decide alike when to stop"
            if ended
            else "take the same way on all ranks; to skip a batch, return a loss times 0 with all parameters in it",
        )

    def _skipped(self) -> Finding:
        """Return what it means that training_step of this rank has returned None."""
        others = "; ".join(f"rank {rank} is at {sign.stage}" for rank, sign in self.presence.others().items())
        step = self.facts.get("steps", 0)
        place = " or ".join(places_of(self.module, ("training_step",)))
        return unsorted(
            FAILED,
            f"rank {self.rank} skips batch {self.batch} after {step} optimizer steps, "
            f"because its training_step returns None; {others}",
            f"rank {self.rank}: {place}, batch {self.batch}",
            "DDP averages gradients in each backward pass: the ranks would disagree about the step from here on",
            "take the same way on all ranks: return a loss times 0 with all parameters in it, not None",
        )

    def _compare_parameters(self, trainer: Trainer, pl_module: LightningModule, phase: str) -> None:
        comparable = self.ddp is not None and self.agree
        answers = self._meet(trainer, phase, fingerprint(self.parameters) if comparable else None)
        names = differing(answers) if comparable else []
        if not names:
            return
        distances = self._distances(names)
        names = [name for name in names if not distances[name] <= self.tolerance]
        if not names:  # rounding
            return
        self.agree = False
        names.sort(key=lambda name: -distances[name])
        listed = ", ".join(f"{name} by {distances[name]:.2g}" for name in names[:NAMED])
        unreduced = [name for name in names if name in self.unreduced]
        hooks = BEFORE[phase]
        if phase == BATCH_START and self.batch == 0:
            hooks = BEFORE_TRAINING if trainer.current_epoch == 0 else BEFORE_EPOCH
        before = places_of(pl_module, hooks)
        why = "each rank trains another model from here on: DDP averages gradients, and no weights"
        if phase == BATCH_END and unreduced:
            names_of = f"{', '.join(unreduced[:NAMED])}{more(unreduced)}"
            cause = f"the gradients of {names_of} differed before the optimizer's step"
            fix = "call the LightningModule, not the torch module inside a no_sync(); do not write to .grad on one rank"
        else:
            cause = "" if phase != BATCH_END else "their gradients were the same after the backward pass"
            fix = (
                "change weights in the same way on all ranks, without their rank or a random number, or send them: "
                "self.trainer.strategy.broadcast(...), torch.distributed.broadcast(parameter.data, src=0)"
            )
        self.fail(
            f"{len(names)} of {len(self.parameters)} parameters differ between ranks, relative to their largest entry: "
            f"{listed}{more(names)}",
            f"ranks 0 to {self.world_size - 1}: {', '.join(names[:NAMED])}; changed before {self.presence.sign.stage}, "
            f"in {' or '.join(before)}, or a callback",
            f"{why}; {cause}" if cause else why,
            fix,
        )

    def _distances(self, names: list[str]) -> dict[str, float]:
        """Return by how much each parameter is away from rank 0's, on the rank where most, relative to its size."""
        own = {}
        for name in names:
            mine = self.parameters[name].detach().double().cpu().contiguous()
            first = mine.clone()
            distributed.broadcast(first, 0, self.group)
            own[name] = ((mine - first).abs().max() / first.abs().max().clamp(min=1e-12)).item()
        answers: list[Any] = [None] * self.world_size
        distributed.all_gather_object(answers, own, self.group)
        # Not max(): NaN is the largest distance.
        return {name: sorted(answer[name] for answer in answers)[-1] for name in names}

    def _judge_monitored(self, answers: list[dict[str, float]], monitors: dict[str, str]) -> None:
        """Compare what the ranks have logged under the names by which epochs are chosen."""
        for name, watcher in monitors.items():
            values = [answer[name] for answer in answers if name in answer]
            if (
                self.findings_about(name)
                or len(values) < 2
                or not max(values) - min(values) > ROUNDING * max(map(abs, values))
            ):
                continue
            told = ", ".join(f"{value:.6g} on rank {rank}" for rank, value in enumerate(values))
            self.fail(
                f"{name}, which {watcher} monitors, differs between ranks: {told}",
                f"ranks 0 to {len(values) - 1}: self.log({name!r}, ...) without sync_dist=True",
                "epochs are chosen by a part of the data, and ranks may decide differently",
                f"self.log({name!r}, value, sync_dist=True), or log a metric of torchmetrics, which reduces itself",
            )

    def _judge_unused(self, trainer: Trainer, pl_module: LightningModule) -> None:
        ddp = self.ddp
        if ddp is None or ddp.find_unused_parameters or ddp.static_graph or not ddp.require_backward_grad_sync:
            return
        unused = [name for name, p in self.parameters.items() if p.requires_grad and name not in self.used]
        if not unused:
            return
        raise Parted(
            unsorted(
                FAILED,
                f"{len(unused)} of {len(self.parameters)} parameters got no gradient: "
                f"{', '.join(unused[:NAMED])}{more(unused)}",
                f"rank {self.rank}: {' or '.join(places_of(pl_module, ('training_step',)))}, batch {self.batch}",
                "DDP waits for the gradient of every parameter: the next step raises 'Expected to have finished "
                "reduction', or another rank waits for this one",
                "use them in the loss, or freeze them with requires_grad_(False), or allow it: "
                "++trainer.strategy=ddp_find_unused_parameters_true",
            )
        )

    def _judge_lengths(self, shares: list[list[Loader]]) -> None:
        for loaders in zip(*shares, strict=True):
            counts = [loader.batches for loader in loaders]
            if None in counts or len(set(counts)) == 1:
                continue
            short_rank = counts.index(min(counts))
            loader = loaders[short_rank]
            raise Parted(
                unsorted(
                    FAILED,
                    "the ranks have different numbers of batches: "
                    + ", ".join(f"rank {rank} {count}" for rank, count in enumerate(counts)),
                    f"rank {short_rank}: train_dataloader, {loader.sampler} over {loader.dataset}",
                    f"rank {short_rank} ends its epoch first, and the others wait for its gradients for ever",
                    "give all ranks as many batches: a DistributedSampler, or drop_last=True",
                )
            )
        self.shares = shares

    def _judge_shares(self, trainer: Trainer, answers: list[tuple[list[str], list[list[Any]]]]) -> None:
        for rank in range(1, self.world_size):
            if self._judge_pair(trainer, answers, rank):
                return
        for loader in self.shares[0]:
            if loader.samples is not None:
                extra = -loader.samples % self.world_size
                self.facts["samples"] = loader.samples
                self.facts["repeated_samples"] = extra if "Distributed" in loader.sampler else 0

    def _judge_pair(self, trainer: Trainer, answers: list[tuple[list[str], list[list[Any]]]], rank: int) -> bool:
        """Judge whether ranks 0 and `rank` work on the same data; whether they do."""
        (ours, our_indices), (theirs, their_indices) = answers[0], answers[rank]
        same = same_batches(ours, theirs)
        if 2 * same >= len(ours) and same:
            self._seen_twice(trainer, rank, f"the same {same} of their {len(ours)} first batches")
            return True
        pairs = zip(self.shares[0], self.shares[rank], our_indices, their_indices, strict=True)
        for mine, other, drawn, also_drawn in pairs:
            if mine.content is None or mine.content != other.content:
                continue  # not the same dataset
            first, second = flat(drawn), flat(also_drawn)
            if None not in first and first == second and len(set(first)) > 1:
                self._seen_twice(trainer, rank, f"the same {len(first)} samples in the same order, augmented apart")
                return True
            if mine.whole and other.whole:
                self._seen_twice(trainer, rank, f"all {mine.samples} samples in every epoch, in orders of their own")
                return True
            common = set(first) & set(second)
            if mine.splits and other.splits and len(common) > self.world_size:  # some are repeated to fill up
                what = (
                    f"shares of the data that overlap: {len(common)} of their {len(first)} first samples are the same"
                )
                fix = "one seed for the sampler on all ranks, and set_epoch with one number: they cut up one order"
                self._seen_twice(trainer, rank, what, fix)
                return True
        return False

    def _seen_twice(self, trainer: Trainer, rank: int, what: str, fix: str | None = None) -> None:
        loader = self.shares[0][0] if self.shares[0] else None
        where = "train_dataloader"
        if loader is not None:
            where += f", {loader.dataset}" if loader.samples is None else f", {loader.sampler} over {loader.dataset}"
        why = f"{self.world_size} processes do the work of one: no speed-up, and an epoch is {self.world_size} epochs"
        switched_off = not trainer._accelerator_connector.use_distributed_sampler
        if fix is not None:
            why = "some samples are seen twice in an epoch, and others never"
        elif loader is not None and loader.samples is None:
            fix = "take every world_size-th sample from the rank-th on in __iter__, and split that among the workers"
        elif switched_off:
            where = f"{where}, trainer.use_distributed_sampler=false"
            fix = "++trainer.use_distributed_sampler=true, or a DistributedSampler of your own in train_dataloader"
        else:
            fix = "DistributedSampler(dataset, num_replicas=trainer.world_size, rank=trainer.global_rank) on every rank"
        self.fail(
            f"ranks 0 and {rank} get {what}",
            f"ranks 0 and {rank}: {where}",
            why,
            fix,
        )

    def _gone(self) -> str | None:
        """Return what has become of a rank that has gone, or None."""
        for rank, child in enumerate(self.children, 1):
            if child.poll() not in (None, 0):
                return f"rank {rank} {ended(child)}"
        for rank, sign in self.presence.others().items():
            if is_dead(sign):
                return f"rank {rank} has ended"
            if sign.left:
                return f"rank {rank} has stopped at {sign.stage}"
        return f"prepare_data takes longer than {self.prepare_timeout:g} s" if self._prepares_too_long() else None

    def _prepares_too_long(self) -> bool:
        waited = time.monotonic() - self.presence.reached_at
        return self.presence.sign.stage == RENDEZVOUS and waited > self.prepare_timeout

    def _absent(self, error: str, raised: Exception | None = None) -> Finding:
        """Return what has become of the rank that this one has waited for, by its own words if it has left some."""
        deadline = time.monotonic() + GRACE
        others = self.presence.others()
        while time.monotonic() < deadline:
            told = self._told()
            if told is not None:
                return told
            others = self.presence.others()
            if not any(sign.left for sign in others.values()) and time.monotonic() > deadline - GRACE + 1:
                break
            time.sleep(0.1)
        stage = self.presence.sign.stage
        if self._prepares_too_long():
            signs = {self.rank: self.presence.sign} | others
            busy = next((rank for rank, sign in signs.items() if "prepare_data" in sign.at), self.rank)
            return unsorted(
                FAILED,
                f"prepare_data takes longer than {self.prepare_timeout:g} s",
                f"rank {busy}: {', in '.join(filter(None, (signs[busy].at, signs[busy].calls)))}",
                "the other ranks wait for it, as long as it takes",
                "a download can be done once without this item, or given more time: "
                "callbacks.debug_distributed.prepare_timeout=3600",
            )
        nowhere = [rank for rank in range(self.expected) if rank not in others and rank != self.rank]
        for rank, child in enumerate(self.children, 1):
            if child.poll() not in (None, 0):
                return self._dead(rank, others.get(rank), f"rank {rank} {ended(child)}")
        for rank, sign in others.items():
            if is_dead(sign):
                return self._dead(rank, sign, f"rank {rank} has ended without a word")
        if nowhere:
            return unsorted(
                FAILED,
                f"rank {nowhere[0]} of {self.expected} has not started: {self.rank} waited for it at {stage}",
                f"rank {nowhere[0]}: before its callbacks were built",
                "a process group forms when all ranks are there",
                f"look at what rank {nowhere[0]} has printed; a slow start needs "
                f"callbacks.debug_distributed.rendezvous_timeout=120",
            )
        behind = self._behind()
        if behind:
            return self._hung(behind[0])
        brief = SOURCE.sub("", error.splitlines()[0])
        if "network" in self.facts:
            lines = "; ".join(f"rank {rank} is at {sign.at or sign.stage}" for rank, sign in others.items())
            place = "" if raised is None else line_of(traceback.extract_tb(raised.__traceback__))[0]
            return unsorted(
                FAILED,
                f"a collective of rank {self.rank} failed after {stage}: {brief}",
                f"rank {self.rank}: {place or stage}",
                f"the ranks call different collectives, or one comes too late; {lines}",
                "call self.log(..., sync_dist=True), self.all_gather, metrics and torch.distributed on all ranks, in "
                "the same order",
            )
        return unsorted(
            FAILED,
            f"the ranks cannot talk to each other: {brief}",
            f"rank {self.rank}: {stage}",
            "nothing can be trained in several processes without a network between them",
            f"the same without this project: {bare_test(self.expected)}; several network interfaces: "
            f"GLOO_SOCKET_IFNAME=lo or NCCL_SOCKET_IFNAME name the right one",
        )

    def _told(self) -> Finding | None:
        """Return what another rank has found, of those that have written their verdict."""
        for rank in range(self.expected):
            path = rank_file(self.folder, rank)
            if rank == self.rank or not path.is_file():
                continue
            for verdict in loads(path.read_text(encoding="utf-8")):
                if verdict["item"] == self.item and verdict["findings"]:
                    finding = Finding.from_dict(verdict["findings"][-1])  # the last is the exception
                    where = finding.where if finding.where.startswith("rank") else f"rank {rank}: {finding.where}"
                    return replace(finding, place=Place(note=where))
        return None

    def _dead(self, rank: int, sign: Sign | None, what: str) -> Finding:
        stage = "its start" if sign is None else sign.stage
        return unsorted(
            FAILED,
            f"{what}; it had come to {stage}, and rank {self.rank} waits at {self.presence.sign.stage}",
            f"rank {rank}: after {stage}",
            "the others wait for it for half an hour, unless something ends them",
            "if nobody has killed it, memory ran out (dmesg | tail -n 20): python train.py +debug=memory",
        )

    def _hung(self, sign: Sign) -> Finding:
        stage = self.presence.sign.stage
        limit, key = self.timeout, "timeout"
        if self.group is None:
            limit, key = self.patches.seconds, "rendezvous_timeout"
        return unsorted(
            FAILED,
            f"rank {sign.rank} has not come to {stage} within {limit:g} s; it is still after {sign.stage}",
            f"rank {sign.rank}: {', in '.join(filter(None, (sign.at or f'after {sign.stage}', sign.calls)))}",
            "the others wait for it in the next collective, for half an hour unless something ends them",
            f"do less there, or the same on all ranks; if it is only slow: callbacks.debug_distributed.{key}=120",
        )


class Patches:
    """Short time-outs for the process group, and a rank that dies does not take the report with it.

    Args:
        seconds: time-out of rendezvous.
        arrive: is called before the group forms with the number of its processes, and returns its time-out.
        children: gets the ranks that Lightning starts from this one.
    """

    def __init__(self, seconds: float, arrive: Callable[[int], float], children: list[Popen]) -> None:
        self.seconds, self.arrive, self.children = seconds, arrive, children
        self.entered = False

    def __enter__(self) -> None:
        self.entered = True
        # The level was read when torch was imported, which may have been before the environment was set.
        distributed.set_debug_level_from_env()
        self.init = init = distributed.init_process_group

        @wraps(init)
        def short_init(*arguments: Any, **options: Any) -> None:
            bound = inspect.signature(init).bind(*arguments, **options)
            limit = timedelta(seconds=self.arrive(bound.arguments.get("world_size", 1)))
            bound.arguments["timeout"] = min(bound.arguments.get("timeout") or limit, limit)
            init(*bound.args, **bound.kwargs)

        distributed.init_process_group = short_init
        # Lightning 2.6 kills this process too as soon as it sees that a rank has failed.
        self.observe = getattr(subprocess_script, "_launch_process_observer", None)
        if self.observe is not None:
            subprocess_script._launch_process_observer = self.children.extend

    def __exit__(self, *error: object) -> None:
        if not self.entered:
            return
        self.entered = False
        distributed.init_process_group = self.init
        if self.observe is not None:
            subprocess_script._launch_process_observer = self.observe


def fingerprint(tensors: dict[str, Tensor]) -> dict[str, int]:
    """Return a number for each tensor that changes with any of its bits."""
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    numbers = {}
    for name, tensor in tensors.items():
        real = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        bits = real.contiguous().reshape(-1).view(integers[real.element_size()]).long()
        numbers[name] = (bits * (torch.arange(len(bits), device=bits.device) % 65521 + 1)).sum()
    if not numbers:
        return {}
    # One transfer from the device for all of them.
    return dict(zip(numbers, torch.stack(list(numbers.values())).tolist(), strict=True))


def differing(answers: list[dict[str, int]]) -> list[str]:
    """Return the names whose numbers are not the same in all answers."""
    names = answers[0] if answers else ()
    return [name for name in names if any(answer.get(name) != answers[0][name] for answer in answers)]


def order(stage: Stage) -> tuple[int, int, int]:
    return stage.epoch, stage.batch, PHASES.index(stage.phase)


def places_of(pl_module: LightningModule, hooks: tuple[str, ...]) -> list[str]:
    """Return where the project's own versions of some hooks are: Module.hook (file:line)."""
    own = [hook for hook in hooks if is_overridden(hook, pl_module)]
    places = []
    for hook in own or hooks[-1:]:
        code = inspect.unwrap(getattr(type(pl_module), hook)).__code__
        places.append(f"{type(pl_module).__name__}.{hook} ({shorten(code.co_filename)}:{code.co_firstlineno})")
    return places


def more(names: list[str]) -> str:
    return f" and {len(names) - NAMED} more" if len(names) > NAMED else ""


def ended(child: Popen) -> str:
    if child.returncode < 0:
        return f"was ended by {signal.Signals(-child.returncode).name}"
    return f"has ended with exit code {child.returncode}"


def bare_test(world_size: int) -> str:
    module = f"{__package__}.network"
    prefix = "" if "PYTHONPATH" not in os.environ else f"PYTHONPATH={os.environ['PYTHONPATH']} "
    return f"{prefix}python -m torch.distributed.run --nproc-per-node {world_size} -m {module}"
