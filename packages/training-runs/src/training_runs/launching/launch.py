"""Runs a job where it belongs: in this process, or in processes of its own when it needs several.

Lightning's own launcher starts the further ranks by replaying `sys.argv`: in a sweep rank 1 runs the whole sweep
again, and rank variables and a process group are left behind for the next job. So a job of several processes runs
whole, from building the model to testing it, in ranks that torch's elastic agent supervises; this process only
waits. It never initialises torch.distributed or CUDA.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

from omegaconf import DictConfig, open_dict
from training_config.errors import ConfigError
from training_config.overrides import quoted, same_job
from training_config.processes import device_count
from training_config.secret_values import redact_text, secret_values

from training_runs.errors import JobError
from training_runs.launching import ranks
from training_runs.launching.parent import by_signal, kills
from training_runs.launching.ranks import FAILURE_FILE, RECORD_FILE
from training_runs.records import resume
from training_runs.records.runs import claim, read_record, release

Train = Callable[[DictConfig], float | None]


def run_job(train: Train, cfg: DictConfig, script: str) -> float | None:
    """Return `train(cfg)`, called here, or by `script` in as many processes as the Trainer asks for.

    Args:
        train: one whole job, from config to the value of `cfg.monitor`, which a sweeper optimises.
        cfg: the job's config, inside a Hydra application.
        script: the file whose `hydra.main` comes to the same `cfg` from the same command line.
    """
    if ranks.launched():
        return run_as_rank(train, with_launched_devices(cfg))
    if ranks.are_needed(cfg):
        return run_in_processes(cfg, script)
    return train(cfg)


def with_launched_devices(cfg: DictConfig) -> DictConfig:
    """Return `cfg` with the devices and nodes for which a launcher has started processes, whatever it says itself."""
    launched = deepcopy(cfg)
    with open_dict(launched.trainer):
        launched.trainer.num_nodes = ranks.node_count()
        launched.trainer.devices = ranks.world_size() // ranks.node_count()
    return launched


def run_as_rank(train: Train, cfg: DictConfig) -> float | None:
    """Return `train(cfg)`; what stops it is written down for the process that started the ranks."""
    try:
        value = train(cfg)
        leave_together()
        if FAILURE_FILE in os.environ:
            Path(os.environ[FAILURE_FILE]).with_name(f"done.{ranks.rank()}").touch()
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


def run_in_processes(cfg: DictConfig, script: str) -> float | None:
    """Have `script` run this job in processes of its own; return the value of `cfg.monitor` that they recorded.

    Raises:
        ConfigError: the Trainer asks for several nodes.
        JobError: the job failed.
    """
    nodes = cfg.trainer.get("num_nodes", 1)
    if nodes > 1:
        raise ConfigError(
            f"trainer.num_nodes={nodes} needs a launcher on every node: start this command with srun, "
            f"or with torchrun --nnodes {nodes} --nproc-per-node <devices> on each"
        )
    folder = Path(cfg.output_dir)
    lock = claim(folder)  # for as long as any of the ranks may live
    try:
        return supervised(cfg, script, folder)
    finally:
        release(folder, lock)


def supervised(cfg: DictConfig, script: str, folder: Path) -> float | None:
    """Have ranks of `script` run this job, under a supervisor; return as `run_in_processes` does."""
    from training_runs.records.run_record import RunRecord, settle  # torch, which a help text does not need

    record = RunRecord(cfg)  # with the user's own command
    if record.resume_point is None:
        record.begin()
    # A sweep's command does not say it.
    further = [] if cfg.resume is None else [f"{resume.KEY}={quoted(cfg.output_dir)}"]
    count = device_count(cfg.trainer, ranks.visible_gpus(cfg))
    with tempfile.TemporaryDirectory() as scratch:
        failure_file, record_file = Path(scratch) / "failure", Path(scratch) / "record"
        record_file.write_text(json.dumps(record.content), encoding="utf-8")  # rank 0 goes on from here
        command = [sys.executable, "-m", f"{__package__}.supervise", str(count), str(failure_file), str(folder)]
        command += [str(cfg.get("no_progress_minutes")), script]
        environment = dict(os.environ) | {FAILURE_FILE: str(failure_file), RECORD_FILE: str(record_file)}
        # Else every rank takes all cores for its tensor operations.
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
        # A session of its own: Ctrl-C reaches this process alone, and there is one way to stop. Its standard input
        # is a pipe that closes when this process dies, however it dies.
        before = kills()
        supervisor = subprocess.Popen(
            [*command, *same_job(*further)], env=environment, stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            code = supervisor.wait()
        except BaseException:
            stop(supervisor)
            if record.is_written():
                settle(folder, "interrupted")
            raise
        finally:
            supervisor.stdin.close()
        if code == 0:
            return read_record(folder)["metrics"].get(cfg.monitor)
        reason = failure_file.read_text(encoding="utf-8") if failure_file.is_file() else ended(code, before)
    reason = redact_text(reason, secret_values(cfg))
    if not folder.is_dir() or not record.is_written():
        raise JobError(reason)
    settle(folder, "failed", reason)
    raise JobError(f"{reason}\n{resume.way_on(folder, 'failed')}")


def ended(code: int, kills_before: int) -> str:
    """Return what became of a supervisor that has left no word."""
    if code < 0:
        return f"the process that watches the ranks, which end with it, was ended by {by_signal(-code, kills_before)}"
    return f"the process that watches the ranks ended with exit code {code} and no word"


def stop(supervisor: subprocess.Popen) -> None:
    """Have the supervisor end its ranks, which save first, however long that takes; asked again, end all at once."""
    supervisor.terminate()
    print("stopping: every process saves after the batch in progress; asked again, they end at once", flush=True)
    try:
        supervisor.wait()
    finally:
        supervisor.kill()
        supervisor.wait()
