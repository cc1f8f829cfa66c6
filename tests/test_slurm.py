"""Jobs of a real SLURM, whose daemons are all on this machine: `apt-get install slurm-wlm munge`, as root.

What one machine does not show: several nodes, GPUs that SLURM hands out, accounts and preemption.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from faulty.commands import MINUTES, SMALL, read_json, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
LACKING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason=f"no {', '.join(LACKING)} here"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="SLURM's daemons run as root"),
    pytest.mark.slow,
]
TWO_RANKS = (*SMALL, "trainer=ddp", "+trainer.deterministic=true", "logger=csv", "figures=false", "test=false")
CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm(commands) -> Iterator[SimpleNamespace]:
    """Call SLURM's commands with what the project needs in their environment."""
    folder = Path(tempfile.mkdtemp())  # a socket's path has at most 107 letters
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(host=host, ports=ports, folder=folder), encoding="utf-8")
    environment = commands.environment | {"SLURM_CONF": str(configuration), "OMP_NUM_THREADS": "1"}
    munge = ("key-file=munge.key", "socket=munge.socket", "pid-file=munged.pid", "log-file=munged.log")
    munge = [f"--{each.replace('=', f'={folder}/')}" for each in (*munge, "seed-file=munge.seed")]
    daemons = []

    def call(*command: str | Path, cwd: Path = folder) -> str:
        told = subprocess.run(
            [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60 * MINUTES
        )
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout

    try:
        for command in (["munged", "--foreground", "--force", *munge], ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            with (folder / "daemons").open("a") as output:
                daemons.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
            time.sleep(0.5)  # each asks the one before
        wait_for(lambda: "idle" in call("sinfo", "--noheader", "--format=%T"), 60, "a node that is ready")
        yield SimpleNamespace(call=call, environment=environment)
        call("scancel", "--user=root")
        wait_for(lambda: not call("squeue", "--noheader"), 60, "the end of every job")
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(slurm, commands, tmp_path_factory) -> Path:
    """Return the directory of a run of `srun -n 2`."""
    folder = tmp_path_factory.mktemp("undisturbed")
    slurm.call(
        "srun", "-n", "2", sys.executable, commands.project / "train.py", *TWO_RANKS, "trainer.max_epochs=3", cwd=folder
    )
    [run] = folder.glob("outputs/train/slurm-*-0")
    return run


def test_srun_starts_one_run_of_two_tasks(undisturbed):
    record = read_json(undisturbed / "run.json")
    assert (record["state"], record["world_size"], record["steps"]) == ("finished", 2, 21)


def test_a_job_at_its_time_limit_is_started_again_and_ends_as_if_it_had_not_been(
    slurm, commands, undisturbed, tmp_path
):
    limit = "+callbacks.limit._target_=faulty.recorded.TimeLimit"
    command = ["srun", sys.executable, str(commands.project / "train.py"), *TWO_RANKS, "trainer.max_epochs=3", limit]
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {subprocess.list2cmdline(command)}\n", encoding="utf-8")
    output = tmp_path / "output"
    slurm.call(
        *("sbatch", "--parsable", "--requeue", "--ntasks=2", "--open-mode=append", f"--output={output}", script),
        cwd=tmp_path,
    )
    wait_for(lambda: not slurm.call("squeue", "--noheader"), 60 * MINUTES, "the end of the job")
    [run] = tmp_path.glob("outputs/train/slurm-*-0")
    record = read_json(run / "run.json")
    assert record["state"] == "finished", output.read_text(encoding="utf-8")
    begun, again = (start["step"] for start in record["starts"])
    assert begun == 0
    assert 7 < again < 14  # amid the second epoch
    whole, ended = (
        torch.load(each / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"] for each in (undisturbed, run)
    )
    assert all(torch.equal(whole[name], ended[name]) for name in whole)


def test_jobs_of_a_sweep_are_jobs_of_slurm(slurm, commands, tmp_path):
    asked = ("hydra.launcher.gpus_per_node=null", "hydra.launcher.cpus_per_task=1", "hydra.launcher.timeout_min=5")
    sweep = ("-m", "launcher=submitit_slurm", *asked, "seed=1,2", f"hydra.sweep.dir={tmp_path}/sweep")
    slurm.call(sys.executable, commands.project / "train.py", *sweep, *SMALL, "logger=csv", "trainer=cpu", cwd=tmp_path)
    jobs = [read_json(tmp_path / "sweep" / job / "run.json") for job in ("0", "1")]
    assert [(job["state"], job["seed"]) for job in jobs] == [("finished", 1), ("finished", 2)]
