"""Whether a job needs several processes, and whether this is one of them. Read at start-up: nothing heavy here."""

import atexit
import os
import signal
import subprocess
import time

from omegaconf import DictConfig
from training_config.errors import ConfigError
from training_config.processes import needs_processes

from training_runs.launching.parent import STOPS

# Variables of launchers that hold a number, and those that come with one that marks a launched process.
NUMBERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_PORT"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES"),
    *("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"),
)
# Those that Lightning takes this process's rank from: any other than 0 writes no file.
RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
# Each is less than what counts them.
COUNTED = {"RANK": "WORLD_SIZE", "LOCAL_RANK": "LOCAL_WORLD_SIZE", "SLURM_PROCID": "SLURM_STEP_NUM_TASKS"}
REQUIRED = {
    "TORCHELASTIC_RUN_ID": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    "SLURM_STEP_ID": ("SLURM_JOB_ID", "SLURM_PROCID"),
}
FAILURE_FILE = "LAUNCH_FAILURE_FILE"  # variable that tells each rank where to write down what stopped it
RECORD_FILE = "LAUNCH_RECORD_FILE"  # variable that tells each rank where the record lies with which it begins

SILENCE = 10  # seconds that a rank waits for rank 0 to do what ends them all: to say why, or to ask SLURM


def are_needed(cfg: DictConfig) -> bool:
    """Whether the Trainer asks for more than one process."""
    return needs_processes(cfg.trainer, visible_gpus(cfg))


def visible_gpus(cfg: DictConfig) -> int:
    """Return how many devices of this machine Lightning would choose where the config leaves that to it."""
    if str(cfg.trainer.get("devices", "auto")) not in ("auto", "-1"):
        return 1  # not asked for; counting imports torch
    import torch

    return max(1, torch.cuda.device_count()) if cfg.trainer.get("accelerator", "auto") in ("auto", "gpu", "cuda") else 1


def launched() -> bool:
    """Whether torchrun or srun started this process as one rank of a job.

    SLURM_PROCID alone says nothing: plain `sbatch` sets it too. Only `srun` starts numbered steps.
    """
    return "TORCHELASTIC_RUN_ID" in os.environ or (
        os.environ.get("SLURM_STEP_ID", "").isdigit() and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1
    )


def restarted() -> bool:
    """Whether SLURM (after `scontrol requeue`, say) or torchrun (--max-restarts) has started this job before."""
    return any(int(os.environ.get(f"{name}_RESTART_COUNT", "0")) > 0 for name in ("SLURM", "TORCHELASTIC"))


def misshapen() -> list[str]:
    """Return a line for each variable of a launcher that is not what launchers set, before anything relies on it."""
    lines = [
        f"{name}={os.environ[name]} in the environment must be a whole number; unset {name}, or start with torchrun"
        for name in NUMBERS
        if not (os.environ.get(name, "0").isascii() and os.environ.get(name, "0").isdecimal())
    ]
    if lines:
        return lines
    for name, count in COUNTED.items():  # a rank that nobody counts on is waited for, or waits, without an end
        number, most = (int(os.environ.get(variable, default)) for variable, default in ((name, "0"), (count, "1")))
        if count in os.environ and number >= most:
            said = f"{name}={number} and " if name in os.environ else ""
            return [
                f"{said}{count}={most} in the environment cannot be: ranks count from 0; unset them, or use torchrun"
            ]
    for mark, wanted in REQUIRED.items():
        lacking = [name for name in wanted if name not in os.environ]
        if launched() and mark in os.environ and lacking:
            return [
                f"{mark}={os.environ[mark]} in the environment says that a launcher has started this process, but "
                f"{', '.join(lacking)} is not there; unset {mark}, or start with torchrun or srun"
            ]
    further = [name for name in RANKS if os.environ.get(name, "0") != "0"]
    if further and not launched():
        return [
            f"{further[0]}={os.environ[further[0]]} in the environment says that this is a further process of a job, "
            f"but neither torchrun nor srun has started it; unset {further[0]}, or start with torchrun or srun"
        ]
    return []


def explain_allocation() -> None:
    """Have Lightning 2.6.6 see the processes that SLURM has started, not those that it gave room for.

    In a script of sbatch and a shell of salloc, SLURM_NTASKS is what a step of srun would have; Lightning refuses it,
    or reads a rank that is not there. The config says how many processes are started from here. What `srun -n 2` has
    started Lightning takes with the number of each node alone.
    """
    if "SLURM_NTASKS" not in os.environ:
        return
    if launched():
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            os.environ.setdefault("SLURM_NTASKS_PER_NODE", str(world_size() // node_count()))
    elif "SLURM_PROCID" in os.environ:  # of sbatch
        os.environ["SLURM_NTASKS"] = "1"
    else:
        del os.environ["SLURM_NTASKS"]


def can_requeue() -> bool:
    """Whether this process is of a job that SLURM can start again, not of somebody's shell."""
    return "SLURM_JOB_ID" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def requeue(first: bool) -> None:
    """Have SLURM start this job again when this process ends and all is written: it ends the job's processes at once.

    Args:
        first: whether this is rank 0, which asks. The others wait for their end: one that leaves may end all before.
    """
    atexit.register(ask_for_requeue if first else wait_for_requeue)


def ask_for_requeue() -> None:
    """Where SLURM refuses, its words are on standard error."""
    let_go()
    array = [os.environ[f"SLURM_ARRAY_{name}_ID"] for name in ("JOB", "TASK") if "SLURM_ARRAY_TASK_ID" in os.environ]
    subprocess.run(["scontrol", "requeue", "_".join(array) or os.environ["SLURM_JOB_ID"]], check=False)


def wait_for_requeue() -> None:
    let_go()
    time.sleep(SILENCE)


def let_go() -> None:
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)


def launched_here() -> bool:
    """Whether it was `launch`, in a process that has claimed the run's directory."""
    return FAILURE_FILE in os.environ


def check_launched(cfg: DictConfig) -> None:
    """Refuse to train with several devices where nobody has started the processes for it.

    Raises:
        ConfigError: always the case in a notebook, an interpreter or a test that calls the training function itself.
    """
    if are_needed(cfg) and not launched():
        raise ConfigError(
            "this Trainer needs several processes, which a running interpreter cannot become: "
            "run its script in a shell, or set trainer.devices=1 and trainer.strategy=auto here"
        )


def rank() -> int:
    return int(_first("RANK", "SLURM_PROCID"))


def world_size() -> int:
    return int(_first("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"))


def node_count() -> int:
    if "LOCAL_WORLD_SIZE" in os.environ:
        return world_size() // int(os.environ["LOCAL_WORLD_SIZE"])
    return int(os.environ.get("SLURM_STEP_NUM_NODES", "1"))


def shared_stamp(proposal: str) -> str:
    """Return one name for the run's directory on which all ranks agree: the one that was proposed first.

    Under srun it is the job's step, the same for all ranks and again after a requeue.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return f"slurm-{os.environ['SLURM_JOB_ID']}-{os.environ['SLURM_STEP_ID']}"
    from torch.distributed import TCPStore  # torchrun keeps this store open for its workers

    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    return store.compare_set("run_stamp", "", proposal).decode()


def _first(*variables: str) -> str:
    return next(os.environ[variable] for variable in variables if variable in os.environ)
