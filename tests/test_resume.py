"""Commands that are stopped in every way that there is, and go on as if they had not been."""

import os
import resource
import signal
from pathlib import Path

import pytest
import torch
from faulty.commands import Commands, Finished, jobs_of, read_json, the_sweep, wait_for

# Three epochs of 14 steps, of 7 on each of two ranks; the first checkpoint amid an epoch is that after step 10.
RUN = (
    "data=mnist_sample",
    "data.batch_size=250",
    "model=mlp",
    "trainer.accelerator=cpu",
    "+trainer.deterministic=true",
    "trainer.max_epochs=3",
    "callbacks=[checkpoint]",
    "callbacks.last_checkpoint.every_n_train_steps=5",
    "logger=csv",
)
BATCH = 11
ALLOWED = "allow=[faulty]"  # what only the first command has named
KINDS = {"one process": [], "workers": ["data.num_workers=2"], "ddp": ["trainer=ddp"]}


pytestmark = pytest.mark.usefixtures("no_leftovers")


def stop(signum: int, **options) -> list[str]:
    values = {"batch": BATCH, "signal": int(signum), "mark": "${output_dir}/stopped"} | options
    added = "+callbacks.stop"
    return [f"{added}._target_=faulty.stopping.Stop", *(f"{added}.{key}={value}" for key, value in values.items())]


def train(commands: Commands, folder: Path, *arguments: str) -> Finished:
    return commands.run(folder, commands.project / "train.py", *arguments)


def the_run(folder: Path) -> Path:
    [record] = folder.glob("outputs/**/run.json")
    return record.parent


def ended_as(run: Path) -> tuple:
    """What a run ends with: its metrics, and weights and optimizer state to the last bit."""
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    [optimizer] = checkpoint["optimizer_states"]
    tensors = [*checkpoint["state_dict"].values()]
    tensors += [value for state in optimizer["state"].values() for value in state.values()]
    record = read_json(run / "run.json")
    assert record["state"] == "finished"
    return record["metrics"], [tensor.numpy().tobytes() for tensor in tensors]


@pytest.fixture(scope="module")
def whole(commands, tmp_path_factory):
    """`whole(kind)`: what an uninterrupted run ends with; each is made once."""
    made = {}

    def run(kind: str) -> tuple:
        if kind not in made:
            folder = tmp_path_factory.mktemp("whole")
            finished = train(commands, folder, *KINDS[kind], *RUN)
            assert finished.code == 0, finished.output
            made[kind] = ended_as(the_run(folder))
        return made[kind]

    return run


def resumed(commands: Commands, folder: Path) -> tuple:
    finished = train(commands, folder, "resume=last", ALLOWED)
    assert finished.code == 0, finished.output
    return ended_as(the_run(folder))


@pytest.mark.parametrize("kind", [pytest.param("one process", marks=pytest.mark.slow), "workers"])
def test_a_killed_run_resumes_to_the_same_weights(kind, commands, whole, tmp_path):
    killed = train(commands, tmp_path, *KINDS[kind], *RUN, *stop(signal.SIGKILL))
    assert killed.code == -signal.SIGKILL
    assert resumed(commands, tmp_path) == whole(kind)
    states = [start["state"] for start in read_json(the_run(tmp_path) / "run.json")["starts"]]
    assert states == ["killed", "finished"]


@pytest.mark.parametrize(
    ("signum", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_asked_to_stop_saves_and_says_how_to_go_on(signum, code, commands, whole, tmp_path):
    asked = train(commands, tmp_path, *KINDS["workers"], *RUN, *stop(signum, group=True))
    run = the_run(tmp_path)
    assert (asked.code, read_json(run / "run.json")["state"]) == (code, "interrupted")
    assert f"interrupted; goes on with: python train.py resume={run.relative_to(tmp_path)}" in asked.output
    assert "Traceback" not in asked.output
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == BATCH + 1
    assert resumed(commands, tmp_path) == whole("workers")


@pytest.mark.slow
def test_a_killed_rank_ends_the_job_which_resumes_to_the_same_weights(commands, whole, tmp_path):
    process = commands.start(
        tmp_path, commands.project / "train.py", *KINDS["ddp"], *RUN, *stop(signal.SIGKILL, rank=1)
    )
    wait_for(lambda: list(tmp_path.glob("outputs/**/stopped")), 120, "the rank to be killed")
    assert process.wait(30) == 1
    assert "rank 1 of 2 was ended by SIGKILL" in (tmp_path / "output").read_text(encoding="utf-8")
    assert resumed(commands, tmp_path) == whole("ddp")


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_ranks_that_are_asked_to_stop_do_so_at_one_step(signum, code, commands, whole, tmp_path):
    endless = [text for text in RUN if "max_epochs" not in text and "every_n" not in text]
    process = commands.start(
        tmp_path, commands.project / "train.py", *KINDS["ddp"], *endless, "trainer.max_epochs=-1", *stop(0)
    )
    wait_for(lambda: list(tmp_path.glob("outputs/**/stopped")), 120, "training to begin")
    process.send_signal(signum)
    assert process.wait(60) == code
    run = the_run(tmp_path)
    assert read_json(run / "run.json")["state"] == "interrupted"
    saved = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["between_batches"]
    assert len(saved["ranks"]) == 2
    assert "asked again, they end at once" in (tmp_path / "output").read_text(encoding="utf-8")
    commands.wait_until_gone(15)


@pytest.mark.slow
def test_ranks_that_are_asked_to_stop_amid_a_long_validation_save_after_it(commands, whole, tmp_path):
    slow = ("seconds=12", "mark=${output_dir}/slow")  # longer than an agent waits for ranks that it has asked
    slow = ("+callbacks.slow._target_=faulty.stopping.SlowValidation", *(f"+callbacks.slow.{each}" for each in slow))
    process = commands.start(tmp_path, commands.project / "train.py", *KINDS["ddp"], *RUN, *slow)
    wait_for(lambda: list(tmp_path.glob("outputs/**/slow")), 120, "the second validation")
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 143
    saved = torch.load(the_run(tmp_path) / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["global_step"] in (14, 15)  # after the validation, or at the step on which the ranks agree
    assert resumed(commands, tmp_path) == whole("ddp")


def test_a_full_disk_is_one_error_and_the_checkpoint_before_resumes(commands, whole, tmp_path):
    # No file may be larger than the first checkpoint, which has no moments of Adam yet: the second does not fit.
    limited = f"""
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, {resource.RLIM_INFINITY}))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    full = commands.run(tmp_path, "-c", limited, commands.project / "train.py", *RUN)
    run = the_run(tmp_path)
    assert full.code == 1
    assert "Traceback" not in full.output
    [line] = [line for line in full.output.splitlines() if line.startswith(str(run / "checkpoints"))]
    assert line.endswith("last.ckpt cannot be written: File too large; the one before is whole")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["last.ckpt"]
    assert resumed(commands, tmp_path) == whole("one process")


def test_a_run_that_is_alive_is_refused(commands, tmp_path):
    process = commands.start(tmp_path, commands.project / "train.py", *RUN, "trainer.max_epochs=-1", *stop(0))
    wait_for(lambda: list(tmp_path.glob("outputs/**/stopped")), 120, "training to begin")
    run = the_run(tmp_path)
    before = read_json(run / "run.json")
    refused = commands.start(tmp_path / "other", commands.project / "train.py", f"resume={run}", ALLOWED)
    assert refused.wait(120) == 1
    said = (tmp_path / "other" / "output").read_text(encoding="utf-8")
    assert f"is still running (process {process.pid} on {os.uname().nodename})" in said
    assert read_json(run / "run.json") == before


def test_a_finished_run_says_so_and_goes_on_when_it_is_made_longer(commands, tmp_path):
    assert train(commands, tmp_path, *RUN, "trainer.max_epochs=1").code == 0
    run = the_run(tmp_path)
    before = read_json(run / "run.json")
    again = train(commands, tmp_path, "resume=last")
    assert (again.code, read_json(run / "run.json")) == (0, before)
    assert f"{run.relative_to(tmp_path)} is finished" in again.output
    assert train(commands, tmp_path, "resume=last", "trainer.max_epochs=2").code == 0
    record = read_json(run / "run.json")
    assert (record["state"], record["epochs"], record["steps"]) == ("finished", 2, 28)
    for start, epochs in zip(record["starts"], (1, 2), strict=True):
        assert f"trainer.max_epochs={epochs}" in [text.lstrip("+") for text in start["overrides"]]
    assert [start["step"] for start in record["starts"]] == [0, 14]


@pytest.mark.slow
def test_a_sweep_goes_on_with_the_job_that_was_stopped(commands, whole, tmp_path):
    sweep = ("-m", "seed=42,43", *RUN, *stop(signal.SIGTERM))
    assert train(commands, tmp_path, *sweep).code == 143
    tree = the_sweep(tmp_path)
    assert jobs_of(tree) == ["0"]
    # Nothing but the second job is stopped now.
    assert train(commands, tmp_path, *sweep, f"hydra.sweep.dir={tree}").code == 143
    assert train(commands, tmp_path, *sweep, f"hydra.sweep.dir={tree}").code == 0
    assert ended_as(tree / "0") == whole("one process")
    assert [len(read_json(tree / job / "run.json")["starts"]) for job in ("0", "1")] == [2, 2]
