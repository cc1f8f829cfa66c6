"""Kills training again and again, resumes it each time, and compares what it ends with to an uninterrupted run.

python benchmarks/resume/kill.py PROJECT [--kills 25] [--seed 0]

PROJECT is a generated project whose package and libraries this Python can import. Writes RESULTS.md beside this file.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

# Sixty epochs of 14 steps, with a checkpoint after every step: about half of the time is spent writing one.
RUN = (
    "data=mnist_sample",
    "data.batch_size=250",
    "model=mlp",
    "trainer=deterministic",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=60",
    "callbacks=[checkpoint,early_stopping]",
    "callbacks.early_stopping.patience=60",
    "callbacks.last_checkpoint.every_n_train_steps=1",
    "logger=csv",
)
VARIANTS = {
    "plain": [],
    "2 workers, plateau": ["data.num_workers=2", "scheduler=plateau", "scheduler.scheduler.patience=0"],
    "accumulation, one_cycle": ["trainer.accumulate_grad_batches=3", "scheduler=one_cycle"],
}
LONGEST = 1.5  # seconds between a first checkpoint and a kill


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with (folder / "output").open("a", encoding="utf-8") as output:
        command = [sys.executable, PROJECT / "train.py", *arguments]
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )


def last(folder: Path) -> Path:
    return next(folder.glob("outputs/**/last.ckpt"), folder / "none")


def modified(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


def weights(path: Path) -> dict[str, torch.Tensor]:
    checkpoint = torch.load(path, weights_only=True)
    moments = {
        f"{index}/{name}": value
        for index, state in checkpoint["optimizer_states"][0]["state"].items()
        for name, value in state.items()
    }
    return checkpoint["state_dict"] | moments


def kill_until_done(folder: Path, overrides: list[str], kills: int) -> list[tuple[float, int, bool]]:
    """Train under at most `kills` kills; return of each the seconds, the step on disk, and whether amid a write."""
    killed = []
    process = start(folder, *RUN, *overrides)
    while True:
        before = modified(last(folder))
        while modified(last(folder)) == before and process.poll() is None:
            time.sleep(0.005)
        seconds = random.uniform(0, LONGEST)
        try:
            process.wait(seconds if len(killed) < kills else None)
            assert process.returncode == 0, (folder / "output").read_text(encoding="utf-8")[-3000:]
            return killed
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        path = last(folder)
        step = torch.load(path, weights_only=True)["global_step"]  # it can be read, whenever that was
        killed.append((seconds, step, path.with_name(".last.ckpt.draft").exists()))
        process = start(folder, "resume=last")


def main(kills: int, seed: int) -> None:
    random.seed(seed)
    lines = ["| run | kill | after (s) | step on disk | amid a write |", "| --- | --- | --- | --- | --- |"]
    verdicts, total, amid = [], 0, 0
    each = -(-kills // len(VARIANTS))
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, overrides) in enumerate(VARIANTS.items()):
            whole, stopped = Path(scratch, f"{number}-whole"), Path(scratch, f"{number}-stopped")
            whole.mkdir()
            stopped.mkdir()
            assert start(whole, *RUN, *overrides).wait() == 0
            killed = kill_until_done(stopped, overrides, each)
            ours, theirs = weights(last(stopped)), weights(last(whole))
            same = ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)
            rows = [next(folder.glob("outputs/**/metrics.csv")).read_text() for folder in (whole, stopped)]
            for index, (seconds, step, writing) in enumerate(killed, 1):
                lines.append(f"| {name} | {index} | {seconds:.2f} | {step} | {'yes' if writing else ''} |")
            verdicts.append(
                f"- {name}: {len(killed)} kills; {len(ours)} tensors {'equal' if same else 'DIFFERENT'}, "
                f"metrics.csv {'equal' if rows[0] == rows[1] else 'DIFFERENT'}"
            )
            total, amid = total + len(killed), amid + sum(writing for *_, writing in killed)
            print(verdicts[-1], flush=True)
    head = [
        "# Killed and resumed",
        "",
        f"`python benchmarks/resume/kill.py PROJECT --kills {kills} --seed {seed}`, torch {torch.__version__}: "
        f"{total} SIGKILLs at random moments, {amid} of them amid the write of a checkpoint.",
        "Weights and optimizer state at the end, bit for bit against a run that nobody stopped:",
        "",
    ]
    Path(__file__).with_name("RESULTS.md").write_text(
        "\n".join([*head, *verdicts, "", *lines]) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("project", type=Path)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    PROJECT = given.project.resolve()
    main(given.kills, given.seed)
