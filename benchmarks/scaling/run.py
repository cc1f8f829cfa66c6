"""Simulate what no machine here has: many ranks, many samples, a store of objects, a job that is restarted.

python benchmarks/scaling/run.py                     everything, and the tables to RESULTS.md
python benchmarks/scaling/run.py ranks samplers      some parts

Ranks are simulated in one process: what each of them would read follows from its number alone. What is measured is the
project's own code, no network and no disk.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
TEMPLATE = HERE.parents[1]
RANKS = 64
PASSING = 1_000_000  # samples of the simulated epoch: a prime more, so that nothing divides it
BATCH = 128


def trainer_at(rank: int, world_size: int, epoch: int, batches: int) -> Any:
    """Return as much of a Trainer as a sampler asks."""
    progress = lambda count: SimpleNamespace(current=SimpleNamespace(processed=count))  # noqa: E731
    epoch_loop = SimpleNamespace(batch_progress=progress(batches))
    loop = SimpleNamespace(epoch_progress=progress(epoch), restarting=batches > 0, epoch_loop=epoch_loop)
    return SimpleNamespace(world_size=world_size, global_rank=rank, fit_loop=loop)


def ranks() -> list[str]:
    """Every sample of an epoch of 64 ranks once, the same number for each; and again from the middle."""
    from training_runs.sampling.epoch_sampler import EpochSampler

    started = time.perf_counter()
    read = [[*EpochSampler(range(PASSING + 3), BATCH, 1, trainer_at(rank, RANKS, 0, 0))] for rank in range(RANKS)]
    seconds = time.perf_counter() - started
    again = [[*EpochSampler(range(PASSING + 3), BATCH, 1, trainer_at(rank, RANKS, 0, 51))] for rank in (0, 31, 63)]
    resumed = all(later == read[rank][51 * BATCH :] for rank, later in zip((0, 31, 63), again, strict=True))
    rows = [described("indices", read, PASSING + 3, resumed, seconds)]
    head = (
        "| samples by | samples | read | not read | read twice | fewest and most of a rank | resumed amid | seconds |"
    )
    return [f"## {RANKS} ranks", "", head, "| --- " * 8 + "|", *rows]


def described(what: str, read: list[list[Any]], samples: int, resumed: bool, seconds: float) -> str:
    counts = Counter(sample for each in read for sample in each)
    twice = sum(count - 1 for count in counts.values())
    sizes = sorted(len(each) for each in read)
    same = "the same rest" if resumed else "**another rest**"
    cells = (what, samples, sum(sizes), samples - len(counts), twice, f"{sizes[0]}, {sizes[-1]}", same)
    return f"| {' | '.join(map(str, cells))} | {seconds:.0f} |"


def samplers() -> list[str]:
    """What one of 64 ranks needs before its first sample, by the number of samples."""
    rows = []
    for power in range(5, 9):
        seconds, held = apart(first_sample, 10**power)
        rows.append(f"| 10^{power} | {seconds:.2f} s, {held:.0f} MiB |")
    head = "| samples | by indices |"
    title = "## Until the first sample of an epoch, and the memory that is held for it, on one of 64 ranks"
    return [title, "", head, "| --- " * 2 + "|", *rows]


def first_sample(samples: int) -> tuple[float, float]:
    """Return seconds and MiB."""
    from training_runs.sampling.epoch_sampler import EpochSampler

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    next(iter(EpochSampler(range(samples), BATCH, 1, trainer_at(31, RANKS, 0, 0))))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return time.perf_counter() - started, held / 1024


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a process of its own, whose memory nobody else has used."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def restarts() -> list[str]:
    """A job of torchrun that loses its process twice, beside one that does not."""
    runs = {}
    for what in ("undisturbed", "killed twice"):
        with tempfile.TemporaryDirectory() as folder:
            project = generate(Path(folder))
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=2", "train.py"]
            command += [
                "data=mnist_sample",
                "trainer=ddp",
                "trainer.accelerator=cpu",
                "trainer.devices=1",
                "logger=csv",
            ]
            command += ["trainer.max_epochs=3", "figures=false", "hydra.run.dir=run"]
            command += ["callbacks.last_checkpoint.every_n_train_steps=10"]
            command += ["+callbacks.kills._target_=kills.Kills", f"+callbacks.kills.steps={STEPS[what]}"]
            environment = python_path(project) | {"KILLS": str(project / "kills")}
            told = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
            if told.returncode:
                sys.exit(told.stdout + told.stderr)
            runs[what] = json.loads((project / "run" / "run.json").read_text(encoding="utf-8"))
    rows = []
    for what, run in runs.items():
        steps = ", ".join(str(start.get("step")) for start in run["starts"])
        rows.append(
            f"| {what} | {steps} | {run['steps']} | {run['metrics']['val/loss']!r} | {run['metrics']['test/loss']!r} |"
        )
    head = "| torchrun --max-restarts=2 | step that each start began with | steps | val/loss | test/loss |"
    return ["## Restarts", "", head, "| --- " * 5 + "|", *rows]


STEPS = {"undisturbed": "[]", "killed twice": "[35,120]"}


def objects() -> list[str]:
    """A run that is copied into a store of objects, and from there to where it is evaluated and goes on."""
    import fsspec

    with tempfile.TemporaryDirectory() as folder:
        project = generate(Path(folder))
        train = [sys.executable, "train.py"]
        run_command([*train, "data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "hydra.run.dir=run"], project)
        before = json.loads((project / "run" / "run.json").read_text(encoding="utf-8"))
        store = fsspec.filesystem("memory")
        store.put(str(project / "run"), "memory://bucket/run", recursive=True)
        files = len(store.find("memory://bucket/run"))
        shutil.rmtree(project / "run")
        store.get("memory://bucket/run", str(project / "elsewhere"), recursive=True)
        run_command([sys.executable, "eval.py", "run=elsewhere"], project)
        run_command([*train, "resume=elsewhere", "trainer.max_epochs=2"], project)
        after = json.loads((project / "elsewhere" / "run.json").read_text(encoding="utf-8"))
        [tested] = (project / "elsewhere" / "eval").glob("*/metrics.json")
        evaluated = json.loads(tested.read_text(encoding="utf-8"))["metrics"]
        refused = subprocess.run(
            [*train, "hydra.run.dir=memory://bucket/run"],
            cwd=project,
            env=python_path(project),
            capture_output=True,
            text=True,
        )
    same = evaluated["test/accuracy"] == before["metrics"]["test/accuracy"]
    return [
        "## A store of objects (fsspec's memory://)",
        "",
        f"- `hydra.run.dir=memory://bucket/run`: exit code {refused.returncode}: {refused.stderr.strip()}",
        f"- a finished run of {files} files, put into the store and fetched into another directory: `eval.py run=` has "
        f"{'the same' if same else '**another**'} test accuracy ({before['metrics']['test/accuracy']}), and "
        f"`resume=` went on from step {after['starts'][-1]['step']} to step {after['steps']}",
    ]


def run_command(command: list[str], project: Path) -> None:
    told = subprocess.run(command, cwd=project, env=python_path(project), capture_output=True, text=True)
    if told.returncode:
        sys.exit(told.stdout + told.stderr)


def generate(folder: Path) -> Path:
    command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", str(folder), str(TEMPLATE)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "digit-classifier"


def python_path(project: Path) -> dict[str, str]:
    sources = [HERE, project / "src", *TEMPLATE.glob("packages/*/src")]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(map(str, sources))}


PARTS = {part.__name__: part for part in (ranks, samplers, restarts, objects)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    arguments = parser.parse_args()
    sys.path[:0] = map(str, TEMPLATE.glob("packages/*/src"))
    lines = ["# Scaling", "", "Written by `python benchmarks/scaling/run.py`: simulations on one machine.", ""]
    for name in arguments.parts or PARTS:
        lines += [*PARTS[name](), ""]
        print("\n".join(lines), flush=True)
    arguments.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
