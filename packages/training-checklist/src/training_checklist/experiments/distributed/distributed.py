"""Several processes that train one model: whether they can talk, keep step, agree, and share the data."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from training_checklist.diagnosis.diagnose import diagnose
from training_checklist.engines.around_step import around_step
from training_checklist.engines.drawn_indices import DrawnIndices, content_of, flat
from training_checklist.engines.fingerprints import checksums, digest_of
from training_checklist.engines.first_difference import differing_names
from training_checklist.engines.places import of_function
from training_checklist.experiments.distributed import meetings, peers, presence
from training_checklist.experiments.distributed.agreement import distances
from training_checklist.experiments.distributed.forked_ranks import Rendezvous
from training_checklist.experiments.distributed.meetings import Meetings
from training_checklist.experiments.distributed.network import NetworkError, self_test
from training_checklist.experiments.distributed.one_process import InOneProcess
from training_checklist.experiments.distributed.peers import Parted, Peers
from training_checklist.experiments.distributed.presence import Interrupted
from training_checklist.experiments.distributed.process_group import ProcessGroup
from training_checklist.experiments.distributed.processes import asks_for_processes
from training_checklist.experiments.distributed.shares import describe, loaders_of
from training_checklist.experiments.distributed.stages import (
    BACKWARD,
    BATCH_END,
    BATCH_START,
    EPOCH_END,
    STEP,
    TRAINING_END,
    TRAINING_START,
    VALIDATION_END,
    VALIDATION_METRICS,
    VALIDATION_START,
    Stage,
)
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import REMARK, Finding
from training_checklist.judging import cause
from training_checklist.lab.ranks import (
    Agreement,
    LeftRank,
    MonitoredValue,
    Ranks,
    Shares,
    SkippedStep,
    UnusedParameters,
    WrongCollective,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.reporting.ranks import rank_file, read_ranks, write_rank
from training_checklist.starting.fork import Fork
from training_checklist.starting.placement import own_folder

SHARDED = "the strategy is not DDP: no rank holds all parameters"
DRIFTED = "the gradients of the ranks differ by the rounding of their reduction, which the weights take up"


class Distributed(Experiment):
    """Has the ranks meet at each hook, where they tell what they hold and read.

    Args:
        timeout: seconds that the ranks wait for one of them at a hook, and in any collective of training.
        rendezvous_timeout: seconds that they wait for one of them to start.
        prepare_timeout: seconds that they wait for prepare_data, for which Lightning itself waits for ever.
        memory_mb: what the network self-test allocates on each rank's device.
    """

    item = "distributed"
    shapes_run = True

    def __init__(
        self,
        timeout: float,
        rendezvous_timeout: float,
        prepare_timeout: float,
        memory_mb: float,
        topics: Sequence[str] = (),
    ) -> None:
        super().__init__(topics)
        self.ranks = Ranks()
        self.timeouts = {
            "rendezvous_timeout": rendezvous_timeout,
            "prepare_timeout": prepare_timeout,
            "timeout": timeout,
        }
        self.memory_mb = memory_mb
        self.peers: Peers | None = None
        self.processes: ProcessGroup | None = None
        self.meetings: Meetings | None = None
        self.drawn = DrawnIndices()
        self.watch: Any = None  # around training_step
        self.batch = -1
        self.batches: list[str] = []  # of the first epoch
        self.epoch_seen = False
        self.monitors: dict[str, str] = {}  # names of logged values, and what looks at them
        self.monitored: set[str] = set()
        self.parameters: dict[str, torch.nn.Parameter] = {}
        self.ddp: DistributedDataParallel | None = None
        self.agree = True  # whether nothing has been found to differ yet
        self.drifted = False
        self.gradients_equal: bool | None = None  # in this batch
        self.used: set[str] = set()  # parameters that got a gradient in this batch
        self.unused_found = self.unused_allowed = False
        self.automatic = self.asked = True
        self.returned_none = False
        self.one_process: InOneProcess | None = None
        self.loss = 0.0
        self.ended_by: Exception | None = None  # what has ended training on this rank
        if HydraConfig.initialized():
            self.begin(own_folder(HydraConfig.instance().cfg))

    def examine(self, fit: Callable[..., None], folder: Path) -> None:
        rendezvous = Rendezvous(2)
        (folder / "debug").mkdir()

        def be_rank(rank: int) -> None:
            os.environ["OMP_NUM_THREADS"] = "1"  # a fork has none of the others
            rendezvous.become(rank)
            presence.BEAT, presence.BUSY, meetings.STUCK, peers.GRACE = 0.1, 0.2, 0.3, 1.0  # nothing here is slow
            self.rank = rank
            self.begin(folder)
            fit(self)
            if self.fitted:
                self.conclude(folder)
            write_rank(rank_file(folder, rank), [self.verdict("")])

        forks = [Fork(partial(be_rank, rank), folder / f"{rank}.log") for rank in range(2)]
        rendezvous.listening.close()
        deadline = time.monotonic() + self.timeouts["rendezvous_timeout"]
        while any([fork.poll() is None for fork in forks]) and time.monotonic() < deadline:
            time.sleep(0.01)
        for fork in forks:
            if fork.poll() is None:
                fork.kill()
        for [verdict] in read_ranks(folder, 0).values():
            self.judged |= {*verdict.judged}
            self.unjudged |= verdict.unjudged
            self.error = self.error or verdict.error
            for finding in verdict.findings:
                self.add(finding)

    def begin(self, folder: Path) -> None:
        """Say from here on where this rank is, in `folder`, which all ranks share."""
        self.asked = asks_for_processes()
        self.peers = Peers(folder, self.item, self.rank, **self.timeouts)
        self.processes = ProcessGroup(self.peers.arrive, self.peers.children)
        self.processes.__enter__()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":  # before some of them are dropped
            watching = [callback for callback in trainer.callbacks if getattr(callback, "monitor", None)]
            self.monitors = {callback.monitor: type(callback).__name__ for callback in watching}
        super().setup(trainer, pl_module, stage)
        # The first one: what others do in a hook on rank 0 alone, such as a progress bar that computes a metric, is
        # answered by the other ranks later on, and must not hold up a meeting that they wait in.
        trainer.callbacks = [self, *(callback for callback in trainer.callbacks if callback is not self)]
        if stage != "fit":
            return
        if self.peers is None:
            self.skip("it needs processes of its own, which a command starts: this is a call")
            return
        if self.world_size < 2 or not distributed.is_initialized():
            self.skip("one process only; trainer.devices=2 gives it a peer")
            self._end()
            return
        self.peers.expected = self.world_size
        self._test_network(trainer)
        self.meetings = Meetings(self.peers, pl_module)
        self.drawn.__enter__()
        self.step_place, self.automatic = of_function(type(pl_module).training_step), pl_module.automatic_optimization
        self.unused_allowed = allow_unused(trainer) or not self.automatic
        self.watch = around_step(pl_module, tell=self._returned)
        self.watch.__enter__()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.meetings is None:
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
        self._judge_shares(trainer, self._meet(trainer, TRAINING_START, [describe(loader) for loader in self.loaders]))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch, self.gradients_equal, self.returned_none = batch_idx, None, False
        self.used.clear()
        if self.meetings is not None and not self.epoch_seen:
            self.batches.append(digest_of(batch))
        self._compare(trainer, pl_module, BATCH_START)
        # What has accumulated, or comes from several optimizers, is no one step's gradient.
        one_step = self.automatic and trainer.accumulate_grad_batches == 1 and len(trainer.optimizers) == 1
        if trainer.global_step == 0 and batch_idx == 0 and self.ddp is not None and one_step:
            self.one_process = InOneProcess(trainer, pl_module, self.meetings.group)
            self.one_process.look(batch)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._compare(trainer, pl_module, BACKWARD)
        self.loss = float(loss.detach())

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.automatic and self.meetings is not None:
            self._judge_unused()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        # With several optimizers the others' gradients may belong to this rank's last backward pass alone.
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        weights = {name: weight for name, weight in self.parameters.items() if id(weight) in own}
        gradients = {name: w.grad for name, w in weights.items() if w.grad is not None and not w.grad.is_sparse}
        self._compare(trainer, pl_module, STEP, gradients)
        if self.one_process is not None:
            self._ask(one_process=self.one_process.evidence(self.loss, self.step_place))
            self.one_process = None

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self.returned_none = False
        self._compare(trainer, pl_module, BATCH_END)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._meet(trainer, VALIDATION_START)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._meet(trainer, VALIDATION_METRICS)  # before Lightning averages what was logged

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        schedules = [config for config in trainer.lr_scheduler_configs if config.reduce_on_plateau and config.monitor]
        monitors = self.monitors | {config.monitor: type(config.scheduler).__name__ for config in schedules}
        logged = {name: value for name, value in trainer.callback_metrics.items() if name in monitors}
        values = {name: float(value) for name, value in logged.items() if value.numel() == 1}
        answers = self._meet(trainer, VALIDATION_END, values)
        for name in monitors:
            seen = [answer[name] for answer in answers if name in answer]
            if len(seen) > 1 and name not in self.monitored:
                found = len(self.findings)
                self._ask(monitored=[MonitoredValue(name, monitors[name], seen)])
                self.monitored |= {name} if len(self.findings) > found else set()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        share = None
        if self.meetings is not None and not self.epoch_seen:
            drawn = [flat(self.drawn.of(loader, len(self.batches))) for loader in self.loaders]
            first = [content_of(loader.dataset, keys) for loader, keys in zip(self.loaders, drawn, strict=True)]
            share = self.batches, [*zip(drawn, first, strict=True)]
        answers = self._meet(trainer, EPOCH_END, share)
        if answers and not self.epoch_seen:
            self.epoch_seen = True
            for loaders, (_, found) in zip(self.shares, answers, strict=True):
                for loader, (drawn, first) in zip(loaders, found, strict=True):
                    loader.drawn, loader.first = drawn, first
            self._judge_shares(trainer, self.shares, [batches for batches, _ in answers])

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._meet(trainer, TRAINING_END)

    def conclude(self, folder: Path) -> None:
        if self.meetings is not None and self.ended_by is not None:  # which the project has caught
            found = self.explain(self.ended_by) or diagnose(self.ended_by)
            if self.skipped is None:
                self.add(found)
        elif self.meetings is not None:
            self._ask(end=None, batch=None, monitored=vars(self.ranks).get("monitored", []))
            if self.agree:
                obstacle = SHARDED if self.ddp is None else DRIFTED if self.drifted else ""
                total = len(self.parameters)
                same = {kind: Agreement(kind, total, obstacle=obstacle) for kind in ("weights", "gradients")}
                self._ask(**same)
            self.seen = (
                f"{self.world_size} ranks took {self.facts['steps']} steps together, "
                f"compared {self.meetings.count} times; {self.facts['network']}"
            )
        self._end()
        if self.peers is not None:
            self.peers.presence.remove()

    def explain(self, error: Exception) -> Finding | None:
        if self.peers is None:
            return None
        self.peers.presence.settle()
        event = self._event(error)
        self._end()
        peers.wait_for(self.peers.children)
        of_other = isinstance(event, Finding)  # what another rank has ended with
        if not self.asked and (event is None or of_other or isinstance(event, LeftRank)):
            ended_with = event.what.partition(":")[0] if of_other else type(error).__name__
            self.skip(f"this project runs in one process; in several it ends with {ended_with}")
        if event is None or of_other:
            return event if self.asked else replace(event or diagnose(error), severity=REMARK)
        self._ask(end=event, batch=self.batch if self.batch >= 0 else None)
        return self.findings[-1] if self.findings else None

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        self.drawn.__exit__()
        self.ended_by = exception if isinstance(exception, Exception) else None

    def _event(self, error: Exception) -> Any:
        """Return what has ended the run, as far as it is about ranks."""
        parted = cause(error, Parted)
        if parted is not None:
            return parted.event
        if self.returned_none:
            signs = self.peers.presence.others().items()
            others = "; ".join(f"rank {rank} is at {sign.stage}" for rank, sign in signs)
            return SkippedStep(self.rank, self.facts.get("steps", 0), others, self.step_place)
        if cause(error, Interrupted) is not None or self.peers.is_loss(error):
            return self.peers.lost(str(error), error)
        return None

    def _ask(self, **known: Any) -> None:
        self.ask(self.probes, self.ranks, **known)

    def add(self, finding: Finding) -> None:
        """Keep a finding; it says nothing against a project that has one process."""
        if not self.asked and finding.severity != REMARK:
            alone = f"this project runs in one process; in several, {finding.why}"
            finding = replace(finding, severity=REMARK, why=alone)
        super().add(finding)

    def _end(self) -> None:
        if self.peers is not None:
            self.peers.presence.leave()
            self.processes.__exit__()
        if self.watch is not None:
            self.watch.__exit__(None, None, None)
        self.drawn.__exit__()
        self.watch = self.meetings = None

    def _returned(self, result: Any) -> None:
        self.returned_none = result is None and self.automatic

    def _test_network(self, trainer: Trainer) -> None:
        presence = self.peers.presence
        try:
            line = self_test(
                trainer.strategy.root_device,
                self.memory_mb,
                lambda name: presence.reach(f"{name} of the network self-test"),
            )
        except NetworkError as error:
            raise Parted(WrongCollective(self.rank, presence.sign.stage, str(error), self.world_size)) from None
        except RuntimeError as error:
            raise Parted(self.peers.lost(str(error))) from error
        print(line, flush=True)
        self.facts["network"] = line.partition("OK: ")[2]
        self.peers.network_tested = True

    def _meet(self, trainer: Trainer, phase: str, payload: Any = None) -> list[Any]:
        """Meet at a phase of training, and return what each rank brings; none outside a process group."""
        if self.meetings is None:
            return []
        self.stage = Stage(trainer.current_epoch, self.batch, phase, trainer.global_step)
        answers = self.meetings.meet(self.stage, payload)
        self.facts["steps"] = trainer.global_step
        return answers

    def _compare(
        self, trainer: Trainer, pl_module: LightningModule, phase: str, gradients: Mapping[str, Tensor] | None = None
    ) -> None:
        """Compare what should be the same on all ranks: gradients where they are given, else the parameters."""
        if self.meetings is None:
            return
        held = self.parameters if gradients is None else gradients
        comparable = self.ddp is not None and self.agree and not self.drifted
        answers = self._meet(trainer, phase, checksums(held) if comparable else None)
        if not comparable:
            return
        names = differing_names(answers)
        if gradients is not None:
            self.gradients_equal = not names and self.gradients_equal is not False
        if not names:
            return
        found, group, zeros = len(self.findings), self.meetings.group, torch.zeros_like
        kind = "weights" if gradients is None else "gradients"
        own = {name: held[name] if name in held else zeros(self.parameters[name]) for name in names}
        apart, place = distances(own, group), self.stage.hooks(pl_module)
        args = (kind, len(held), apart, self.world_size, str(self.stage), place, self.gradients_equal)
        self._ask(**{kind: Agreement(*args)})
        self.agree = len(self.findings) == found
        self.drifted = self.drifted or gradients is not None

    def _judge_unused(self) -> None:
        if self.ddp is None or not self.ddp.require_backward_grad_sync:
            return
        weights = {name: weight for name, weight in self.parameters.items() if weight.requires_grad}
        unused = [name for name in weights if name not in self.used]
        if not self.unused_found and not self.unused_allowed:
            self.unused_found = bool(unused)
            found = UnusedParameters(self.rank, unused, len(weights), self.batch, self.step_place)
            self._ask(unused=found)

    def _judge_shares(self, trainer: Trainer, shares: list[Any], batches: list[list[str]] | None = None) -> None:
        self.shares, found = shares, len(self.findings)
        sampler_off = not trainer._accelerator_connector.use_distributed_sampler
        self._ask(shares=Shares(shares, batches or [], sampler_off))
        if batches is None and len(self.findings) > found:  # numbers of batches: one would wait for ever
            raise Parted(self.findings[-1])
        for loader in shares[0]:
            if loader.samples is not None and batches is not None:
                self.facts["samples"] = loader.samples
                extra = -loader.samples % self.world_size
                self.facts["repeated_samples"] = extra if "Distributed" in loader.sampler else 0


def allow_unused(trainer: Trainer) -> bool:
    """Let DDP survive parameters without a gradient, and return whether the project does so by itself.

    A project that runs in one process need not care, and with several optimizers the others' are unused on purpose.
    """
    options = getattr(trainer.strategy, "_ddp_kwargs", {})
    if options.get("find_unused_parameters") or options.get("static_graph"):
        return True
    options["find_unused_parameters"] = True
    return False
