"""Ranks as forks of an item's process, in the environment that torchrun gives to its ranks: no import is repeated.

Not where a fork may differ from an interpreter that begins anew, or a rank is not begun by torchrun's variables. There
the project's own launcher, or Lightning's, starts interpreters.
"""

import ast
import os
import random
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy
import torch
from lightning_utilities.core.rank_zero import rank_zero_only
from omegaconf import DictConfig, OmegaConf
from torch.distributed import TCPStore
from training_config.processes import device_count

from training_checklist.engines.own_code import is_own, shorten
from training_checklist.engines.salted import salted
from training_checklist.engines.source_trees import source_tree
from training_checklist.lightning import MANY, files_beside
from training_checklist.reporting.ranks import OWNER, this_process
from training_checklist.starting.fork import Fork, is_safe
from training_checklist.starting.placement import is_item

HOST = "127.0.0.1"
LAUNCHED = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")  # set where this is a launcher's rank already
DDP = re.compile(r"auto|ddp(_find_unused_parameters_(true|false))?|(.*\.)?DDPStrategy")
STARTS = ("start_method", "cluster_environment", "process_group_backend")  # arguments that say how ranks begin
DRAWS = re.compile(r"random|seed|rng")  # in the name of a function: what it does differs in each interpreter


def can_be_forked(config: DictConfig) -> bool:
    """Whether the ranks of this job can be forks of this process, each of which runs the training function."""
    trainer = config.get("trainer")
    if not is_item() or not isinstance(trainer, DictConfig) or any(name in os.environ for name in LAUNCHED):
        return False
    return is_plain_ddp(trainer) and is_safe() and not begins_otherwise()


def is_plain_ddp(trainer: Mapping[str, Any]) -> bool:
    """Whether a config builds a Trainer whose ranks are processes of this machine's CPU, begun as Lightning likes."""
    strategy = trainer.get("strategy") or "auto"
    name = strategy if isinstance(strategy, str) else str(strategy.get("_target_"))
    plugins = OmegaConf.to_yaml(trainer["plugins"]) if OmegaConf.is_config(trainer.get("plugins")) else ""
    return (
        "_target_" in trainer  # else a script may give more to the Trainer than is known here
        and trainer.get("accelerator") == "cpu"
        and device_count(trainer) > 1
        and int(trainer.get("num_nodes") or 1) == 1
        and DDP.fullmatch(name) is not None
        and (isinstance(strategy, str) or not any(strategy.get(each) for each in STARTS))
        and "Environment" not in plugins
    )


def begins_otherwise() -> bool:
    """Whether the project's code has what each interpreter has anew, and forks have in common.

    That is the order of sets of texts, wherever it is used, and what has been drawn while modules were imported.
    """
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    loaded = [Path(file) for file in files if isinstance(file, str) and file.endswith(".py") and is_own(file)]
    beside = list(islice(files_beside(), MANY + 1))
    read = [path for path in {*beside, *loaded} if "tests" not in Path(shorten(path)).parts]
    return len(beside) > MANY or bool(salted(read)) or any(map(draws_at_import, loaded))


def draws_at_import(path: Path) -> bool:
    """Whether a module draws random numbers, or seeds a generator, while it is imported."""
    return any(DRAWS.search(ast.unparse(call.func)) for call in calls_at_import(source_tree(str(path))))


def calls_at_import(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from calls_at_import(child)


class Rendezvous:
    """Where the ranks meet that are forked from this process later on: nobody else can take its port meanwhile."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.listening = socket.create_server((HOST, 0), backlog=world_size)
        self.port = self.listening.getsockname()[1]
        self.store: TCPStore | None = None

    def become(self, rank: int) -> None:
        """Make this process that rank."""
        if rank == 0:
            listening = self.listening.detach()
            self.store = TCPStore(HOST, self.port, None, True, wait_for_workers=False, master_listen_fd=listening)
        else:
            self.listening.close()
            random.seed()  # as in a new interpreter
            numpy.random.seed()
        rank_zero_only.rank = rank  # as Lightning has set it when it was imported
        threads = int(os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // self.world_size))))
        torch.set_num_threads(threads)
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.world_size, "LOCAL_WORLD_SIZE": self.world_size}
        shared = {"GROUP_RANK": 0, "MASTER_ADDR": HOST, "MASTER_PORT": self.port, "TORCHELASTIC_RUN_ID": "distributed"}
        store = {"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": 0}
        os.environ.update({name: str(value) for name, value in {**ranks, **shared, **store}.items()})


class ForkedRanks:
    """This process as rank 0, and its forks as the others; all go on from here.

    Args:
        world_size: how many there are to be.
    """

    current: ClassVar["ForkedRanks | None"] = None

    def __init__(self, world_size: int) -> None:
        os.environ[OWNER] = this_process()  # of the report, should it not live to write it
        self.rendezvous, self.others = Rendezvous(world_size), []
        rank = 0
        for number in range(1, world_size):
            fork = Fork()
            if fork.pid == 0:
                rank, self.others = number, []
                break
            self.others.append(fork)
        self.rendezvous.become(rank)
        ForkedRanks.current = self
