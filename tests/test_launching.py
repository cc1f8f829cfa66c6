"""Jobs in one process and in several, alone and in sweeps, as the command line starts them."""

import csv
import os
import signal
import socket
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from faulty.commands import SMALL, Finished, jobs_of, read_json, the_sweep, wait_for, with_small

TORCHRUN = ("-m", "torch.distributed.run")
STATE = ("+callbacks.state._target_=faulty.recorded.ProcessState", "+callbacks.state.path=${output_dir}/state.json")
COUNT = ("+callbacks.count._target_=faulty.recorded.ReductionCount", "+callbacks.count.path=${output_dir}/count")
# A job of the step alone, as `srun` starts it; Lightning asks for the last two itself.
SRUN = {
    "SLURM_JOB_ID": "4242",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "2",
    "MASTER_ADDR": "127.0.0.1",
}
# Failures in the order of the sweep, with the rank and the reason that the job's record must name.
FAILURES = {
    "constructor_raise_1": ("rank 1 of 2 failed: ", "RuntimeError('planted: constructor_raise_1')"),
    "batch_raise_1": ("rank 1 of 2 failed: ", "RuntimeError: planted: batch_raise_1"),
    "batch_raise_0": ("rank 0 of 2 failed: ", "RuntimeError: planted: batch_raise_0"),
    "batch_kill_1": ("rank 1 of 2 was ended by ", "SIGKILL"),
    "fit_end_raise_1": ("rank 1 of 2 failed: ", "RuntimeError: planted: fit_end_raise_1"),
}


pytestmark = pytest.mark.usefixtures("no_leftovers")


def read_jobs(folder: Path) -> list[dict]:
    sweep = the_sweep(folder)
    return [read_json(sweep / job / "run.json") for job in jobs_of(sweep)]


def the_run(folder: Path) -> Path:
    """Return the only directory that a run in `folder` has made."""
    assert not (folder / "multirun").exists()
    [record] = folder.glob("outputs/**/run.json")
    assert len(list(folder.glob("outputs/**/*.ckpt"))) == 2
    return record.parent


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# Processes and the sweep around them


@pytest.fixture(scope="module")
def alternating(commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alternating")
    return folder, commands.train(folder, "-m", "trainer=ddp,cpu", *STATE)


@pytest.fixture(scope="module")
def product(commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("product")
    return folder, commands.train(folder, "-m", "trainer=cpu,ddp", "optimizer.lr=0.01,0.001")


@pytest.mark.parametrize(("sweep", "count"), [("alternating", 2), pytest.param("product", 4, marks=pytest.mark.slow)])
def test_a_sweep_writes_one_tree_with_one_set_of_files_a_job(sweep, count, request):
    folder, finished = request.getfixturevalue(sweep)
    assert finished.code == 0, finished.output
    tree = the_sweep(folder)
    assert jobs_of(tree) == [str(number) for number in range(count)]
    for number in range(count):
        job = tree / str(number)
        assert [path.relative_to(job).as_posix() for path in job.rglob("config.yaml")] == [".hydra/config.yaml"]
        assert [path.relative_to(job).as_posix() for path in job.rglob("metrics.csv")] == ["csv/metrics.csv"]
        assert [path.name for path in job.rglob("*.log")] == ["train.log"]
        assert sorted(path.name for path in job.rglob("*.ckpt")) == ["best.ckpt", "last.ckpt"]
        # events.out.tfevents.<time>.<host>.<process>.<number>
        assert len({path.name.split(".")[-2] for path in job.rglob("events.out.tfevents.*")}) == 1
    assert len(list(folder.rglob("*.log"))) == len(list(folder.rglob("metrics.csv"))) == count
    assert len(list(folder.rglob("run.json"))) == count


@pytest.mark.slow
def test_two_ranks_take_half_the_steps(alternating, product):
    for folder, _ in (alternating, product):
        for record in read_jobs(folder):
            ranks = 2 if "trainer=ddp" in record["overrides"] else 1
            assert (record["state"], record["world_size"], record["steps"]) == ("finished", ranks, 14 // ranks)


@pytest.mark.slow
def test_a_result_does_not_depend_on_the_place_in_the_sweep(commands, product, tmp_path):
    assert commands.train(tmp_path, "-m", "trainer=ddp,cpu,ddp", *STATE).code == 0
    first, single, last = read_jobs(tmp_path)
    assert first["metrics"] == last["metrics"]
    assert first["metrics"] != single["metrics"]
    # The learning rate's default is 0.001.
    cpu, ddp = read_jobs(product[0])[1::2]
    assert cpu["metrics"] == single["metrics"]
    assert ddp["metrics"] == first["metrics"]


def test_a_job_of_several_processes_leaves_nothing_for_the_next(alternating):
    state = read_json(the_sweep(alternating[0]) / "1" / "state.json")
    assert state == {"variables": [], "process_group": False, "cuda": False, "children": []}


@pytest.mark.slow
def test_fsdp2_gives_what_ddp_gives_and_its_checkpoints_are_as_any(commands, tmp_path):
    settings = ("model.channels_last=false", "optimizer=adamw")  # sharded weights do not lie channels last
    for name, epochs in (("ddp", 2), ("fsdp2", 1)):
        finished = commands.train(tmp_path / name, f"trainer={name}", f"trainer.max_epochs={epochs}", *settings)
        assert finished.code == 0, finished.output
    whole, run = the_run(tmp_path / "ddp"), the_run(tmp_path / "fsdp2")
    resumed = commands.run(tmp_path, commands.project / "train.py", f"resume={run}", "trainer.max_epochs=2")
    assert resumed.code == 0, resumed.output
    expected, record = read_json(whole / "run.json"), read_json(run / "run.json")
    assert record["metrics"] == expected["metrics"]
    assert record["world_size"] == 2
    alone = commands.run(tmp_path, commands.project / "eval.py", f"run={run}", "figures=false", "accelerator=cpu")
    assert alone.code == 0, alone.output
    metrics = read_json(run / "eval" / "best" / "metrics.json")["metrics"]
    assert metrics["test/accuracy"] == record["metrics"]["test/accuracy"]


# Failures


@pytest.fixture(scope="module")
def failures(commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("failures")
    fault = (
        "logger=csv",
        "+callbacks.fault._target_=faulty.planted.PlantedFailure",
        f"+callbacks.fault.kind={','.join(FAILURES)}",
    )
    finished = commands.train(folder, "-m", "trainer=ddp,cpu", *fault)
    records = iter(read_jobs(folder))
    ddp, cpu = ({kind: next(records) for kind in FAILURES} for _ in range(2))
    return SimpleNamespace(folder=folder, finished=finished, ddp=ddp, cpu=cpu)


def outputs(finished: Finished) -> list[str]:
    """Return what each job of a sweep has said: Hydra announces them one by one."""
    starts = [finished.output.index(f"\t#{number} : ") for number in range(finished.output.count("[HYDRA] \t#"))]
    return [finished.output[start:end] for start, end in pairwise([*starts, len(finished.output)])]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failed_job_names_the_rank_and_what_stopped_it(kind, failures):
    record, (rank, reason) = failures.ddp[kind], FAILURES[kind]
    assert record["state"] == "failed"
    assert record["error"].startswith(rank)
    assert reason in record["error"]


@pytest.mark.slow
def test_the_other_jobs_run_when_some_fail(failures):
    assert failures.finished.code == 1
    failed = failures.cpu["batch_raise_0"]  # one process is rank 0
    assert (failed["state"], failed["error"]) == ("failed", "RuntimeError: planted: batch_raise_0")
    healthy = [record for kind, record in failures.cpu.items() if kind != "batch_raise_0"]
    assert [record["state"] for record in healthy] == ["finished"] * 4
    assert [record["metrics"] for record in healthy] == [healthy[0]["metrics"]] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in FAILURES if "raise" in kind])
def test_the_cause_is_shown_before_its_consequences(kind, failures):
    output = outputs(failures.finished)[list(FAILURES).index(kind)]
    cause = output.index(FAILURES[kind][1])
    assert "Connection closed by peer" not in output[:cause]
    # Of a constructor, Hydra says instead what called it with what.
    assert "Traceback (most recent call last)" in output[:cause] or kind == "constructor_raise_1"


@pytest.mark.slow
def test_a_sweep_with_failures_is_summarised(failures):
    sweep = the_sweep(failures.folder)
    records = [*failures.ddp.values(), *failures.cpu.values()]
    with (sweep / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == [record["state"] for record in records]
    assert [row["error"] for row in rows] == [record.get("error", "") for record in records]
    title, *table = (sweep / "summary.md").read_text(encoding="utf-8").split("\n")
    assert title == f"# {sweep.name}"
    # A header and a rule; then one line a job, whatever an error's text is.
    assert [line[:1] for line in table if line] == ["|"] * (2 + len(records))


# Interruptions


@pytest.mark.parametrize("target", ["the process group", pytest.param("the parent alone", marks=pytest.mark.slow)])
def test_ctrl_c_ends_the_sweep(target, commands, tmp_path):
    process, first = start_endless_sweep(commands, tmp_path)
    send = os.killpg if target == "the process group" else os.kill
    send(process.pid, signal.SIGINT)
    commands.wait_until_gone(60)  # nobody ends them while they save
    assert process.wait(15) == 130
    assert read_json(first / "run.json")["state"] == "interrupted"
    assert jobs_of(first.parent) == ["0"]


@pytest.mark.slow
def test_the_ranks_end_when_their_parent_is_killed(commands, tmp_path):
    process, first = start_endless_sweep(commands, tmp_path)
    process.kill()
    commands.wait_until_gone(15)
    assert process.wait(15) == -signal.SIGKILL
    assert jobs_of(first.parent) == ["0"]


def start_endless_sweep(commands, folder):
    """Start a sweep whose jobs train on two ranks for ever; return once the first one does, with its directory."""
    endless = with_small("-m", "trainer=ddp", "trainer.max_epochs=-1", "seed=1,2", "logger=csv")
    process = commands.start(folder, commands.project / "train.py", *endless)
    metrics = "multirun/*/*/*/0/csv/metrics.csv"
    wait_for(lambda: process.poll() is not None or list(folder.glob(metrics)), 120, "training to begin")
    assert process.poll() is None, (folder / "output").read_text(encoding="utf-8")
    return process, the_sweep(folder) / "0"


@pytest.mark.slow
def test_ranks_end_when_their_supervisor_is_killed_too(commands, tmp_path):
    process, _ = start_endless_sweep(commands, tmp_path)
    others = set(commands.alive()) - {process.pid}
    [supervisor] = [each for each in others if "training_runs.launching.supervise" in command_of(each)]
    # So that it cannot end its ranks either.
    os.kill(supervisor, signal.SIGKILL)
    process.kill()
    process.wait()
    commands.wait_until_gone(15)


def command_of(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").replace("\0", " ")


SILENT = {
    "batch_stop_1": "rank 1 of 2 made no progress for 0.05 minutes, and stopped: it answers no signal",
    "batch_hang_1": "rank 1 of 2 made no progress for 0.05 minutes; stacks.txt says where each rank was",
    "batch_leave_1": "rank 1 of 2 left without an error amid the job (exit code 0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SILENT)
def test_a_rank_that_says_nothing_is_named_and_ends_the_job(kind, commands, tmp_path):
    fault = ("+callbacks.fault._target_=faulty.planted.PlantedFailure", f"+callbacks.fault.kind={kind}")
    finished = commands.train(tmp_path, "trainer=ddp", "logger=csv", "no_progress_minutes=0.05", *fault)
    assert finished.code == 1
    assert SILENT[kind] in finished.output
    [record] = tmp_path.glob("outputs/**/run.json")
    assert read_json(record)["state"] == "failed"
    assert SILENT[kind] in read_json(record)["error"]
    if "hang" in kind:
        first, second = (record.parent / "stacks.txt").read_text(encoding="utf-8").split("rank 1:")
        assert "planted.py" in second
        assert "planted.py" not in first


# What a Trainer can be asked for


@pytest.mark.slow
def test_workers_mixed_precision_and_accumulation_work_on_two_ranks(commands, tmp_path):
    finished = commands.train(
        tmp_path,
        "trainer=ddp_bf16",
        "data.num_workers=2",
        "data.batch_size=125",  # 14 batches a rank
        "trainer.accumulate_grad_batches=2",
        "logger=csv",
        *COUNT,
    )
    assert finished.code == 0, finished.output
    run = the_run(tmp_path)
    record = read_json(run / "run.json")
    assert (record["state"], record["world_size"], record["precision"]) == ("finished", 2, "bf16-mixed")
    assert record["steps"] == 7
    # Gradients travel once an optimizer step, not once a batch.
    assert (run / "count").read_text(encoding="utf-8") == "7"


@pytest.mark.slow
def test_one_and_two_ranks_score_a_checkpoint_alike(alternating, commands, tmp_path):
    run = the_sweep(alternating[0]) / "1"
    script = Path(__file__).parent / "faulty" / "score.py"
    # 501 is odd: one rank has a sample more than the other.
    alone = commands.run(tmp_path / "1", script, run, "501", tmp_path / "1.json")
    assert alone.code == 0, alone.output
    torchrun = (*TORCHRUN, "--standalone", "--nproc-per-node", "2")
    together = commands.run(tmp_path / "2", *torchrun, script, run, "501", tmp_path / "2.json")
    assert together.code == 0, together.output
    one, two = read_json(tmp_path / "1.json"), read_json(tmp_path / "2.json")
    assert (one["world_size"], two["world_size"]) == (1, 2)
    assert set(one["metrics"]) == {"val/accuracy", "val/loss", "test/accuracy", "test/loss"}
    for split in ("val", "test"):
        assert one["metrics"][f"{split}/accuracy"] == two["metrics"][f"{split}/accuracy"]
        # Other batches: float32 sums differ in the eighth digit; a sample counted twice would show in the fourth.
        assert one["metrics"][f"{split}/loss"] == pytest.approx(two["metrics"][f"{split}/loss"], rel=1e-6)


# Other launchers of processes


def test_torchrun_starts_one_run_of_two_ranks(commands, tmp_path):
    torchrun = (*TORCHRUN, "--standalone", "--nproc-per-node", "2")
    finished = commands.run(tmp_path, *torchrun, commands.project / "train.py", *SMALL, "logger=csv")
    assert finished.code == 0, finished.output
    record = read_json(the_run(tmp_path) / "run.json")
    assert (record["state"], record["world_size"], record["steps"]) == ("finished", 2, 7)


@pytest.mark.slow
def test_torchrun_on_two_nodes_starts_one_run(commands, tmp_path):
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}", "--rdzv-id", "two-nodes")
    # Both are this machine, which may not be able to resolve its own name.
    torchrun = (*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", *rendezvous, "--local-addr", "localhost")
    where = f"hydra.run.dir={tmp_path}/outputs/${{run_stamp:}}"  # the nodes' file system is one
    command = (*torchrun, commands.project / "train.py", *SMALL, "logger=csv", where)
    nodes = [commands.start(tmp_path / name, *command) for name in ("node0", "node1")]
    codes = [node.wait(300) for node in nodes]
    assert codes == [0, 0], (tmp_path / "node0" / "output").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("node*/outputs"))
    record = read_json(the_run(tmp_path) / "run.json")
    assert (record["state"], record["world_size"], record["steps"]) == ("finished", 2, 7)


@pytest.mark.slow  # as torchrun above, with other variables
def test_srun_starts_one_run_named_after_its_step(commands, tmp_path):
    step = SRUN | {"MASTER_PORT": str(free_port())}
    where = f"hydra.run.dir={tmp_path}/outputs/${{run_stamp:}}"
    command = (commands.project / "train.py", *SMALL, "logger=csv", where)
    tasks = [
        commands.start(tmp_path / f"task{task}", *command, **step, SLURM_PROCID=task, SLURM_LOCALID=task)
        for task in ("0", "1")
    ]
    codes = [task.wait(300) for task in tasks]
    assert codes == [0, 0], (tmp_path / "task0" / "output").read_text(encoding="utf-8")
    run = the_run(tmp_path)
    assert run == tmp_path / "outputs" / "slurm-4242-3"
    record = read_json(run / "run.json")
    assert (record["state"], record["world_size"], record["steps"]) == ("finished", 2, 7)


@pytest.mark.slow
def test_sbatch_alone_starts_no_rank(commands, alternating, tmp_path):
    # The batch script itself is a step too, and its name is no number.
    batch = {"SLURM_JOB_ID": "4242", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    batch |= {"SLURM_NTASKS": "1", "SLURM_STEP_ID": "batch"}
    finished = commands.train(tmp_path, "-m", "trainer=cpu,ddp", **batch)
    assert finished.code == 0, finished.output
    cpu, ddp = read_jobs(tmp_path)
    assert (cpu["world_size"], ddp["world_size"]) == (1, 2)
    expected_ddp, expected_cpu = read_jobs(alternating[0])
    assert cpu["metrics"] == expected_cpu["metrics"]
    assert ddp["metrics"] == expected_ddp["metrics"]


def test_a_sweep_under_torchrun_is_refused_in_one_sentence(commands, tmp_path):
    torchrun = (*TORCHRUN, "--standalone", "--nproc-per-node", "2")
    finished = commands.run(tmp_path, *torchrun, commands.project / "train.py", "-m", "seed=1,2", *SMALL)
    assert finished.code != 0
    assert finished.output.count("a sweep cannot be started by torchrun or srun") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"output"}


# From Python


PYTHON = """
import os, sys
from hydra import compose, initialize_config_dir
sys.path.insert(0, os.environ["PROJECT"])
from train import train

def run(folder, *overrides):
    with initialize_config_dir(os.environ["PROJECT"] + "/conf", version_base="1.3"):
        cfg = compose("train", [*sys.argv[1:], *overrides, f"output_dir={os.getcwd()}/{folder}", "data_dir=data"])
    os.mkdir(folder)
    return train(cfg)

print("returned", run("cpu", "trainer=cpu"))
try:
    run("ddp", "trainer=ddp")
except Exception as error:
    print("refused", type(error).__name__, error)
"""


@pytest.mark.slow
def test_an_interpreter_trains_on_one_device_and_is_refused_several(commands, alternating, tmp_path):
    finished = commands.run(tmp_path, "-c", PYTHON, *SMALL)
    assert finished.code == 0, finished.output
    record = read_json(tmp_path / "cpu" / "run.json")
    assert record["metrics"] == read_jobs(alternating[0])[1]["metrics"]
    assert f"returned {record['metrics']['val/accuracy']}" in finished.output
    [refusal] = [line for line in finished.output.splitlines() if line.startswith("refused")]
    assert refusal.startswith("refused ConfigError this Trainer needs several processes")
    assert not list((tmp_path / "ddp").iterdir())
