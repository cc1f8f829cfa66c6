"""Runs a job where it belongs: in this process, or in processes of its own when it needs several.

Lightning's own launcher starts the further ranks by replaying `sys.argv`: in a sweep rank 1 runs the whole sweep
again, and rank variables and a process group are left behind for the next job. So a job of several processes runs
whole, from building the model to testing it, in ranks that torch's elastic agent supervises; this process only
waits. It never initialises torch.distributed or CUDA.
"""

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from ..errors import ConfigError, JobError
from . import ranks, resume
from .config_check import check_config
from .overrides import same_job, task_overrides
from .ranks import FAILURE_FILE
from .redaction import redact_text, secret_values
from .runs import RECORD, claim, read_record, shortest

MULTIPLE = ("ddp", "fsdp", "deepspeed", "modelparallel")
STOP_SECONDS = 12  # more than the supervisor gives its ranks

Train = Callable[[DictConfig], float | None]


def run_job(train: Train, cfg: DictConfig, script: str) -> float | None:
    """Call `train(cfg)` here, or have `script` do the same in as many processes as the Trainer asks for.

    Args:
        train: one whole job, from config to the value that a sweeper optimises.
        cfg: the job's config, inside a Hydra application.
        script: the file whose `hydra.main` composes `cfg` from the job's overrides.
    """
    former = _former_start(cfg)
    if former.get("state") == "finished":
        print(f"{shortest(Path(cfg.output_dir))} is finished; it is not run again")
        return former["metrics"].get(cfg.monitor)
    if former:
        cfg = resume.saved_config(cfg)
    with uncollected_imports():
        check_config(cfg)
    if ranks.launched():
        return _run_as_rank(train, cfg)
    if not needs_processes(cfg):
        return train(cfg)
    if cfg.trainer.get("num_nodes", 1) > 1:
        raise ConfigError(
            f"trainer.num_nodes={cfg.trainer.num_nodes} needs a launcher on every node: start this command with srun, "
            f"or with torchrun --nnodes {cfg.trainer.num_nodes} --nproc-per-node <devices> on each"
        )
    _run_in_processes(cfg, script)
    return read_record(Path(cfg.output_dir))["metrics"].get(cfg.monitor)


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Let a process import torch, Lightning and the targets of its config without the garbage collector.

    They make a million objects, which stay: to go through them again and again takes a sixth of the start. Later
    collections leave them out, too, until the process ends: what they hold is to be freed then.
    """
    if "torch" in sys.modules:  # what is there is not all imported: a job before this one may have left garbage
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)
        gc.enable()


def needs_processes(cfg: DictConfig) -> bool:
    """Whether the Trainer's strategy, devices or nodes ask for processes that talk to each other."""
    strategy = cfg.trainer.get("strategy") or "auto"
    name = strategy if isinstance(strategy, str) else strategy.get("_target_", "").rpartition(".")[2]
    return name.lower().startswith(MULTIPLE) or device_count(cfg) > 1 or cfg.trainer.get("num_nodes", 1) > 1


def device_count(cfg: DictConfig) -> int:
    """Return how many devices of this machine `trainer.devices` means."""
    devices = cfg.trainer.get("devices", "auto")
    if OmegaConf.is_list(devices):
        return len(devices)
    if str(devices) in ("auto", "-1"):
        import torch

        accelerator = cfg.trainer.get("accelerator", "auto")
        return max(1, torch.cuda.device_count()) if accelerator in ("auto", "gpu", "cuda") else 1
    if isinstance(devices, str) and "," in devices:
        return len([device for device in devices.split(",") if device.strip()])
    return int(devices)


def check_launched(cfg: DictConfig) -> None:
    """Refuse to train with several devices where nobody has started the processes for it.

    Raises:
        ConfigError: always the case in a notebook, an interpreter or a test that calls the training function itself.
    """
    if needs_processes(cfg) and not ranks.launched():
        raise ConfigError(
            "this Trainer needs several processes, which a running interpreter cannot become: "
            "start it from a shell with python train.py trainer=ddp, or use trainer=auto here"
        )


def _former_start(cfg: DictConfig) -> dict[str, Any]:
    """Return the record of what this start is to go on with, or an empty one.

    That is the run named by `resume`, a job of a sweep that an earlier start of the sweep has begun with the same
    overrides, unless it failed, and a run that SLURM took away and gave back.
    """
    folder = Path(cfg.output_dir)
    if not (folder / RECORD).is_file() or (ranks.launched_here() and cfg.resume is None):
        return {}
    record = read_record(folder)
    if cfg.resume is not None:
        if any(text.lstrip("+").startswith("debug=") for text in record["overrides"]):
            raise ConfigError(f"resume={cfg.resume} is a run of a debug item, which gives its verdict in one go")
        # What is overridden now may be a longer training.
        return record | ({"state": "extended"} if record["state"] == "finished" and resume.given_now() else {})
    again = HydraConfig.get().mode == RunMode.MULTIRUN or int(os.environ.get("SLURM_RESTART_COUNT", "0")) > 0
    return record if again and record["state"] != "failed" and record["overrides"] == task_overrides() else {}


def _run_as_rank(train: Train, cfg: DictConfig) -> float | None:
    cfg.trainer.num_nodes = ranks.node_count()
    cfg.trainer.devices = ranks.world_size() // ranks.node_count()
    try:
        value = train(cfg)
        leave_together()
        return value
    except BaseException as error:
        if FAILURE_FILE in os.environ:
            failure = {"rank": ranks.rank(), "time": time.time(), "error": f"{type(error).__name__}: {error}"}
            path = Path(f"{os.environ[FAILURE_FILE]}.{ranks.rank()}")
            path.write_text(json.dumps(failure), encoding="utf-8")
        raise


def leave_together() -> None:
    """Take the process group down while all ranks are still there: one that leaves early makes others abort."""
    from torch import distributed

    if distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


def _run_in_processes(cfg: DictConfig, script: str) -> None:
    from .run_record import RunRecord, settle

    folder = Path(cfg.output_dir)
    if resuming := cfg.resume is not None:
        with claim(folder) or nullcontext():  # refused here, before ranks are started
            resume.save_config(cfg)
    RunRecord(cfg).write()  # with the user's own command; rank 0 goes on from here
    count = device_count(cfg)
    resumed = [f"{resume.KEY}='{cfg.output_dir}'"] if resuming else []  # a sweep's command does not say it
    with tempfile.TemporaryDirectory() as scratch:
        failure_file = Path(scratch) / "failure"
        command = [sys.executable, "-m", f"{__package__}.supervise", str(count), str(failure_file), script]
        environment = dict(os.environ) | {FAILURE_FILE: str(failure_file)}
        # Else every rank takes all cores for its tensor operations.
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
        # A session of its own: Ctrl-C reaches this process alone, and there is one way to stop. Its standard input
        # is a pipe that closes when this process dies, however it dies.
        supervisor = subprocess.Popen(
            [*command, *same_job(*resumed)], env=environment, stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            code = supervisor.wait()
        except BaseException:
            stop(supervisor)
            settle(folder, "interrupted")
            raise
        finally:
            supervisor.stdin.close()
        if code == 0:
            return
        reason = failure_file.read_text(encoding="utf-8") if failure_file.is_file() else f"supervisor exit code {code}"
    reason = redact_text(reason, secret_values(cfg))
    settle(folder, "failed", reason)
    raise JobError(f"{reason}\n{resume.way_on(folder, 'failed')}")


def stop(supervisor: subprocess.Popen) -> None:
    """End the supervisor, which ends its ranks."""
    supervisor.terminate()
    try:
        supervisor.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
