"""Measure a generated project beside a bare PyTorch loop, and write the table to RESULTS.md.

python benchmarks/speed/run.py                          everything that this machine can measure
python benchmarks/speed/run.py epoch startup            some parts
python benchmarks/speed/run.py epoch --limit 50         fifty batches an epoch, which the table says

Contenders take turns of some seconds, so that other load falls on all of them alike; a ratio is one of neighbours in
time. Needs the packages of a generated project, and cookiecutter.
"""

import argparse
import gzip
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from turns import Server

HERE = Path(__file__).parent
TEMPLATE = HERE.parents[1]
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # package dataset-fashion-mnist: 60,000 and 10,000 real images
PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SAMPLE_REPEATS = 15  # 4,000 images of the bundled sample make 60,000
BF16_FLAGS = {"avx512_bf16", "amx_bf16"}  # of /proc/cpuinfo
PACKAGES = ("torch", "pytorch-lightning", "torchmetrics", "hydra-core", "omegaconf", "cookiecutter")
ONE_BATCH = [f"++trainer.limit_{split}_batches=1" for split in ("train", "val", "test")] + ["trainer.max_epochs=1"]


@dataclass
class Row:
    """A line of the table: what was measured, its samples, and the limit they should keep."""

    what: str
    samples: Sequence[float]
    limit: float | None = None
    at_least: bool = False  # whether `limit` is the least instead of the most
    unit: str = "x"
    remark: str = ""

    def text(self) -> str:
        median = statistics.median(self.samples)
        target, verdict = "", ""
        if self.limit is not None:
            target = f"{'≥' if self.at_least else '≤'} {self.limit:g}"
            verdict = "met" if (median >= self.limit if self.at_least else median <= self.limit) else "**missed**"
        spread = f"{min(self.samples):.3f} to {max(self.samples):.3f}" if len(self.samples) > 1 else ""
        cells = (self.what, f"{median:.3f} {self.unit}", spread, target, verdict, self.remark)
        return f"| {' | '.join(cells)} |"


@dataclass
class Ended:
    """What a process has used."""

    wall: float
    cpu: float
    peak: float  # MiB of resident memory

    def seconds(self, clock: str) -> float:
        return self.cpu if clock == "cpu" else self.wall


@dataclass
class Bench:
    """Where things lie, and how long to measure."""

    arguments: argparse.Namespace
    scratch: Path
    project: Path
    data: Path
    dataset: str
    rows: list[Row] = field(default_factory=list)

    def environment(self, threads: int | None = None) -> dict[str, str]:
        own = os.environ.get("PYTHONPATH")  # where the packages are, perhaps
        source = [self.project / "src", *TEMPLATE.glob("packages/*/src"), HERE, *([own] if own else [])]
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(map(str, source))}
        return environment | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})

    def bare(self, *options: str, scale: int = 1) -> list[str]:
        """Return the command of a bare loop; turns and a cut epoch have `scale` times as many batches."""
        command = [sys.executable, str(HERE / "bare.py"), "--data", str(self.data), "--dataset", self.dataset]
        limit, stretch = self.limits(scale)
        return [*command, *("--epochs", str(self.arguments.epochs), "--limit", limit, "--stretch", stretch), *options]

    def train(self, *overrides: str, scale: int = 1) -> list[str]:
        """Return the command of a run on the same data, with the same statistics, whatever the images are."""
        data = ["data=fashion_mnist", f"data.dataset={self.dataset}", f"data_dir={self.data.parents[1]}"]
        limit, stretch = self.limits(scale)
        epochs = [f"trainer.max_epochs={self.arguments.epochs}"]
        epochs += [] if self.arguments.limit < 0 else [f"++trainer.limit_train_batches={limit}"]
        turns = ["+callbacks.turns._target_=callbacks.TakeTurns", f"+callbacks.turns.stretch={stretch}"]
        return [sys.executable, "train.py", *data, *epochs, *turns, *overrides]

    def limits(self, scale: int) -> tuple[str, str]:
        """Return the batches of an epoch and those of a turn."""
        limit = self.arguments.limit
        return ("-1", str(50 * scale)) if limit < 0 else (str(limit * scale), str(min(50, max(1, limit // 2)) * scale))

    def say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def measure(command: list[str], cwd: Path, environment: dict[str, str], failing: bool = False) -> Ended:
    """Run `command` to its end; one that fails is shown, unless it is to fail."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=output, stderr=output)
        ended = reap(process)
        if (process.returncode != 0) is not failing:
            output.seek(0)
            sys.exit(f"{' '.join(command)}\n{output.read().decode()}")
    ended.wall = time.perf_counter() - started
    return ended


def reap(process: subprocess.Popen) -> Ended:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(0.0, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def alternate(bench: Bench, commands: dict[str, list[str]], repeats: int) -> dict[str, list[Ended]]:
    """Run each command `repeats` times, in turn; once more before, to warm the disk's cache."""
    ended: dict[str, list[Ended]] = {name: [] for name in commands}
    for repeat in range(repeats + 1):
        for name, command in commands.items():
            result = measure(command, bench.project, bench.environment())
            if repeat:
                ended[name].append(result)
                bench.say(f"  {name}: {result.wall:.2f} s, {result.cpu:.2f} s of CPU")
    return ended


@dataclass
class Race:
    """What contenders told: seconds of each epoch, their last words, peak memory in training and altogether."""

    wall: dict[str, list[float]]
    cpu: dict[str, list[float]]
    turns: dict[str, list[float]]  # CPU seconds of each but the first, where everything is new
    accuracy: dict[str, float]
    training_peak: dict[str, float]
    peak: dict[str, float]

    def ratios(self, name: str, to: str, clock: str) -> list[float]:
        """Return a ratio for each epoch."""
        seconds = self.cpu if clock == "cpu" else self.wall
        return [ours / theirs for ours, theirs in zip(seconds[name], seconds[to], strict=True)]


def race(bench: Bench, commands: dict[str, list[str]], threads: int | dict[str, int] | None = None) -> Race:
    """Let `commands`, each a contender of `Turns`, train side by side, one at a time."""
    folder = Path(tempfile.mkdtemp(dir=bench.scratch))
    server = Server()
    processes = {}
    for name, command in commands.items():
        count = threads.get(name) if isinstance(threads, dict) else threads
        environment = bench.environment(count) | server.environment(name)
        with (folder / name).open("wb") as log:
            processes[name] = subprocess.Popen(command, cwd=bench.project, env=environment, stdout=log, stderr=log)

    def check() -> None:
        for name, process in processes.items():
            if process.poll():
                sys.exit((folder / name).read_text(encoding="utf-8", errors="replace"))

    epochs = bench.arguments.epochs
    empty = lambda: {name: [0.0] * epochs for name in commands}  # noqa: E731
    result = Race(empty(), empty(), {name: [] for name in commands}, {}, {}, {})
    seen = 0
    for number, told in enumerate(server.rounds(list(processes), check)):
        for name, content in told.items():
            if "accuracy" in content:
                result.accuracy[name] = content["accuracy"]
            elif number:
                result.wall[name][content["epoch"]] += content["wall"]
                result.cpu[name][content["epoch"]] += content["cpu"]
                result.turns[name].append(content["cpu"])
                result.training_peak[name] = content["peak"]
        epoch = min((content["epoch"] for content in told.values() if "epoch" in content), default=seen)
        if number % 10 == 1:
            shown = ", ".join(f"{name} {content['wall']:.2f} s" for name, content in told.items())
            bench.say(f"  epoch {epoch + 1} of {epochs}, turn {number}: {shown}")
        seen = epoch
    for name, process in processes.items():
        result.peak[name] = reap(process).peak
        if process.returncode != 0:
            sys.exit((folder / name).read_text(encoding="utf-8", errors="replace"))
    return result


def epoch(bench: Bench) -> None:
    """A whole run with the defaults on, beside the bare loop and the usual one."""
    # Threads that wait for each other use CPU time too.
    for threads in (1,) if bench.arguments.clock == "cpu" else dict.fromkeys((1, os.cpu_count() or 1)):
        bench.say(f"epoch, {threads} threads")
        commands = {
            "bare": bench.bare(),
            "project": bench.train("trainer=cpu", "data.batch_size=128"),
        }
        if threads == 1:
            commands["usual"] = bench.bare("--loop", "usual")
        result = race(bench, commands, threads)
        name = f"epoch, CPU, fp32, batch 128, {threads} thread{'s' * (threads > 1)}"
        accuracy = ", ".join(f"{contender} {value:.4f}" for contender, value in sorted(result.accuracy.items()))
        samples = result.ratios("project", "bare", bench.arguments.clock)
        bench.rows.append(Row(name, samples, 1.03, remark=f"test accuracy: {accuracy}"))
        if threads == 1:
            samples = result.ratios("usual", "bare", bench.arguments.clock)
            bench.rows.append(Row(f"{name}: bare with torchvision, a transform a sample", samples))
        parts = {"training and validation": (result.training_peak, 1.15), "the whole run": (result.peak, None)}
        for part, (peak, limit) in parts.items():
            remark = f"{peak['project']:.0f} and {peak['bare']:.0f} MiB"
            ratio = [peak["project"] / peak["bare"]]
            bench.rows.append(Row(f"peak resident memory of {part}, {threads} threads", ratio, limit, remark=remark))


def trivial(bench: Bench) -> None:
    """A network so small that the time of a step is what the loop around it takes."""
    bench.say("trivial")
    model = ["model=mlp", "model.net.hidden_sizes=[]"]
    commands = {
        "bare": bench.bare("--network", "linear", "--batch-size", "32", scale=8),
        "project": bench.train("trainer=cpu", "data.batch_size=32", *model, scale=8),
    }
    result = race(bench, commands, 1)
    seconds = statistics.median(result.turns["bare"])
    step = seconds / int(bench.limits(8)[1]) * 1000
    samples = result.ratios("project", "bare", bench.arguments.clock)
    bench.rows.append(Row("epoch, CPU, a linear layer, batch 32", samples, 2.0, remark=f"bare step {step:.2f} ms"))


def bf16(bench: Bench) -> None:
    """`trainer=bf16` beside the bare loop in fp32, and what `trainer=mixed` chooses here.

    The target is for CPUs that have BF16 instructions; others emulate them, and there is nothing to judge.
    """
    bench.say("bf16")
    commands = {
        "bare": bench.bare(),
        "project": bench.train("trainer=bf16", "trainer.accelerator=cpu", "data.batch_size=128"),
    }
    result = race(bench, commands)
    native = sorted(BF16_FLAGS & cpu_flags())
    remark = ", ".join(native) or "this CPU has no BF16 instructions and emulates them"
    chosen = [sys.executable, "train.py", "trainer=mixed", "trainer.accelerator=cpu", "--cfg", "job", "--resolve"]
    shown = subprocess.run(chosen, cwd=bench.project, env=bench.environment(), capture_output=True, text=True)
    precision = re.search(r"^  precision: (\S+)$", shown.stdout, re.MULTILINE)
    remark += f"; trainer=mixed takes {precision[1] if precision else shown.stderr.strip()}"
    samples = result.ratios("project", "bare", bench.arguments.clock)
    row = Row("epoch, CPU, bf16 beside fp32 bare, batch 128", samples, 0.55 if native else None, remark=remark)
    away = abs(result.accuracy["project"] - result.accuracy["bare"]) * 100
    epochs = bench.arguments.epochs
    accuracy = Row(f"bf16: test accuracy after {epochs} epochs, away from fp32 bare", [away], 0.3, unit="points")
    bench.rows += [row, accuracy]


def startup(bench: Bench) -> None:
    """What answers without torch, and how soon the first step is taken."""
    bench.say("start-up")
    python = [sys.executable]
    completion = "import os; os.environ['COMP_LINE'] = 'python train.py optimizer='; os.environ['COMP_POINT'] = '26'; "
    completion += "import runpy, sys; sys.argv = ['train.py', '-sc', 'query=bash']; "
    completion += "runpy.run_path('train.py', run_name='__main__')"
    commands = {
        "import torch": [*python, "-c", "import torch"],
        "--help": [*python, "train.py", "--help"],
        "--cfg job": [*python, "train.py", "--cfg", "job"],
        "shell completion": [*python, "-c", completion],
    }
    ended = alternate(bench, commands, bench.arguments.repeats)
    bench.rows += beside(ended, "import torch", 0.3, bench.arguments.clock)
    first = ["data=mnist_sample", "trainer=cpu", "+callbacks.first._target_=callbacks.EndAtFirstStep"]
    commands = {"script": [*python, str(HERE / "first_step.py")], "first step": [*python, "train.py", *first]}
    bench.rows += beside(alternate(bench, commands, bench.arguments.repeats), "script", 1.10, bench.arguments.clock)
    whole = [*python, "train.py", "data=mnist_sample", "trainer=cpu", *ONE_BATCH]
    commands = {"script": [*python, str(HERE / "one_batch.py"), str(bench.data)], "a run of one batch": whole}
    bench.rows += beside(alternate(bench, commands, bench.arguments.repeats), "script", 1.25, bench.arguments.clock)


def beside(ended: dict[str, list[Ended]], to: str, limit: float, clock: str) -> list[Row]:
    """Return a row for each command but `to`: its time as a multiple of that of `to`."""
    seconds = {name: [result.seconds(clock) for result in results] for name, results in ended.items()}
    rows = []
    for name in ended:
        if name == to:
            continue
        samples = [ours / theirs for ours, theirs in zip(seconds[name], seconds[to], strict=True)]
        remark = f"{statistics.median(seconds[name]):.2f} s"
        rows.append(Row(f"{name}, beside {to}", samples, limit, remark=remark))
    return rows


def sweep(bench: Bench) -> None:
    """A further job of a sweep in one process: a sweep of eight less a sweep of one."""
    bench.say("sweep")
    many = 8
    job = ["data=mnist_sample", "trainer=cpu", *ONE_BATCH]
    command = [sys.executable, "train.py", "-m", *job]
    for what, overrides in {"": [], ", figures=false": ["figures=false"]}.items():
        commands = {
            "one job": [*command, *overrides, "seed=0"],
            "eight jobs": [*command, *overrides, f"seed={','.join(map(str, range(many)))}"],
        }
        ended = alternate(bench, commands, bench.arguments.repeats)
        pairs = list(zip(ended["eight jobs"], ended["one job"], strict=True))
        clock = bench.arguments.clock
        samples = [(long.seconds(clock) - short.seconds(clock)) / (many - 1) for long, short in pairs]
        bench.rows.append(Row(f"a further job of a sweep{what}", samples, 0.5, unit="s"))
    peaks = {}
    for jobs in (10, 100):  # half a MiB kept by each job would be 1.05
        bench.say(f"  memory of {jobs} jobs")
        peaks[jobs] = measure([*command, f"seed=range({jobs})"], bench.project, bench.environment()).peak
    remark = f"{peaks[100]:.0f} and {peaks[10]:.0f} MiB"
    bench.rows.append(
        Row("peak resident memory of a sweep of 100 jobs beside 10", [peaks[100] / peaks[10]], 1.05, remark=remark)
    )


def many(bench: Bench) -> None:
    """A sweep of 2,000 finished jobs, summarised and continued by one job more; `last` among 10,000 runs."""
    bench.say("many")
    jobs, runs = 2000, 10_000
    python, folder = [sys.executable], bench.scratch / "many"
    job = ["train.py", "-m", "data=mnist_sample", "trainer=cpu", *ONE_BATCH, f"hydra.sweep.dir={folder}"]
    rates = [f"{(number + 1) / 1e4:g}" for number in range(jobs)]  # as Hydra writes them
    measure([*python, *job, f"optimizer.lr={rates[0]}"], bench.project, bench.environment())
    repeat_job(folder, rates)
    record = json.loads((folder / "0" / "run.json").read_text(encoding="utf-8"))
    for number in range(runs):  # one a minute
        copied = bench.project / "outputs" / "many" / str(number)
        (copied / "checkpoints").mkdir(parents=True)
        (copied / "checkpoints" / "last.ckpt").touch()
        started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        record["starts"][-1]["started"] = started.isoformat()
        (copied / "run.json").write_text(json.dumps(record), encoding="utf-8")
        os.utime(copied / "run.json", (started.timestamp() + 1, started.timestamp() + 1))
    shutil.rmtree(folder / str(jobs - 1))
    again = [*job, f"optimizer.lr={','.join(rates)}"]
    commands = {
        "a sweep of 2,000 jobs summarised and drawn": ["eval.py", f"summary={folder}"],
        "a sweep of 2,000 jobs, of which one is missing, continued": again,
        "resume=last among 10,000 runs, refused": ["train.py", "resume=last", "seed=-1"],
    }
    for what, command in commands.items():
        failing = "resume=last" in command
        ended = measure([*python, *command], bench.project, bench.environment(), failing)
        bench.rows.append(Row(what, [ended.seconds(bench.arguments.clock)], unit="s"))


def repeat_job(sweep: Path, rates: Sequence[str]) -> None:
    """Copy what job 0 has left to further jobs, each with its learning rate and a score."""
    first = sweep / "0"
    for number, rate in enumerate(rates[1:], start=1):
        job = sweep / str(number)
        shutil.copytree(first, job, ignore=shutil.ignore_patterns("checkpoints", "tensorboard", "figures"))
        for name in ("run.json", ".hydra/overrides.yaml", ".hydra/config.yaml"):
            text = (job / name).read_text(encoding="utf-8").replace(rates[0], rate)
            (job / name).write_text(text, encoding="utf-8")


def watch(bench: Bench) -> None:
    """Training with `+debug=watch`: turns with it beside turns without it, of one and the same process."""
    wide = ["model=mlp", "model.net.hidden_sizes=[2048,2048,2048]"]
    networks = {"the default CNN": [], "three layers of 2048, 10 million parameters": wide}
    for what, overrides in networks.items():
        bench.say(f"watch, {what}")
        path = bench.scratch / "watch.json"
        switch = ["+callbacks.switch._target_=callbacks.SwitchWatch", "+callbacks.switch.stretch=10"]
        switch += [f"+callbacks.switch.path={path}", "test=false"]
        plain = [each for each in bench.train("trainer=cpu", "data.batch_size=128") if "callbacks.turns" not in each]
        measure([*plain, "+debug=watch", *switch, *overrides], bench.project, bench.environment(1))
        watched, others = json.loads(path.read_text(encoding="utf-8"))
        number = min(len(watched), len(others))
        ratio = sum(watched[:number]) / sum(others[:number])
        # Of each turn beside its neighbour.
        error = (
            statistics.stdev(w - o for w, o in zip(watched, others, strict=False)) * number**0.5 / sum(others[:number])
        )
        remark = f"of {2 * number} turns of 10 batches; standard error {error:.3f}"
        bench.rows.append(Row(f"training with +debug=watch, {what}", [ratio], 1.02, remark=remark))


def ddp(bench: Bench) -> None:
    """Two processes of a thread each beside one of two threads, with 128 samples a step in both."""
    bench.say("ddp")
    commands = {
        "one": bench.train("trainer=cpu", "data.batch_size=128"),
        "two": bench.train("trainer=ddp", "trainer.accelerator=cpu", "data.batch_size=64"),
    }
    result = race(bench, commands, {"one": 2, "two": 1})
    samples = [1 / ratio for ratio in result.ratios("two", "one", "wall")]
    bench.rows.append(
        Row("samples/s, ddp on two CPU processes beside one of two threads", samples, 0.95, at_least=True)
    )


def cookiecutter(bench: Bench) -> None:
    """From the command to a generated project."""
    bench.say("cookiecutter")
    command = [sys.executable, "-m", "cookiecutter", "--no-input", "--overwrite-if-exists"]
    command += ["--output-dir", str(bench.scratch / "again"), str(TEMPLATE)]
    ended = alternate(bench, {"cookiecutter": command}, bench.arguments.repeats)["cookiecutter"]
    samples = [result.seconds(bench.arguments.clock) for result in ended]
    bench.rows.append(Row("cookiecutter --no-input", samples, 2.0, unit="s"))


def loader(bench: Bench) -> None:
    """Training batches of data=image_folder at 224x224 beside torchvision's ImageFolder with the same transforms."""
    bench.say("loader")
    workers = 0 if bench.arguments.clock == "cpu" else 2  # CPU time of workers is not this process's
    command = [sys.executable, str(HERE / "loader.py"), "--folder", str(bench.scratch / "photographs")]
    command += ["--workers", str(workers), "--repeats", str(bench.arguments.repeats), "--clock", bench.arguments.clock]
    command += [] if bench.arguments.limit < 0 else ["--images", str(64 * bench.arguments.limit)]
    ended = subprocess.run(command, cwd=bench.project, env=bench.environment(1), capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    told = json.loads(ended.stdout.splitlines()[-1])
    remark = f"{told['images_per_second']:.0f} images/s, {workers} workers"
    bench.rows.append(
        Row("seconds an image, data=image_folder beside ImageFolder", told["ratios"], 1.10, remark=remark)
    )


MEASURES: dict[str, Callable[[Bench], None]] = {
    measure.__name__: measure
    for measure in (startup, sweep, many, cookiecutter, trivial, epoch, bf16, ddp, loader, watch)
}


def cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def generate(scratch: Path) -> Path:
    command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", str(scratch), str(TEMPLATE)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return scratch / "digit-classifier"


def find_data(scratch: Path, project: Path) -> tuple[Path, str, str]:
    """Return a folder with the unpacked files, torchvision's name for them, and what they are."""
    if DEBIAN.is_dir():
        dataset, source, repeats = "FashionMNIST", DEBIAN, 1
        words = "Fashion-MNIST, 60,000 images (Debian's dataset-fashion-mnist)"
    else:
        dataset, repeats, words = "MNIST", SAMPLE_REPEATS, "the bundled sample repeated to 60,000 images"
        source = next(project.glob("src/*/data/sample"))
    folder = scratch / dataset / "raw"
    folder.mkdir(parents=True)
    for name in PARTS:
        raw = gzip.decompress((source / f"{name}.gz").read_bytes())
        header = 16 if "images" in name else 8
        times = repeats if name.startswith("train") else 1
        count = int.from_bytes(raw[4:8], "big") * times
        (folder / name).write_bytes(raw[:4] + count.to_bytes(4, "big") + raw[8:header] + raw[header:] * times)
    return folder, dataset, words


def machine() -> str:
    """Return the machine in words: what explains a figure, and nothing that names it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    name = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    features = sorted({"avx2", "avx512f", "avx512_bf16", "amx_bf16"} & cpu_flags())
    load = (
        f"load average {os.getloadavg()[0]:.1f} at the start"  # beyond the number of cores, ratios of wall time wander
    )
    return f"{os.cpu_count()} cores of {name} ({', '.join(features)}), {platform.system()}, {load}"


def report(bench: Bench, words: str, machine_words: str) -> str:
    arguments = bench.arguments
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    limit = "" if arguments.limit < 0 else f", cut to {arguments.limit} batches"
    return "\n".join(
        [
            "# Speed",
            "",
            "Written by `python benchmarks/speed/run.py`. Medians, of ratios to what is named where the unit is x.",
            "",
            f"- {machine_words}; Python {platform.python_version()}, {versions}",
            f"- data: {words}; 55,000 to train on, 5,000 to validate after every epoch, in both",
            f"- seconds of {'CPU time' if arguments.clock == 'cpu' else 'wall time'}",
            f"- {arguments.epochs} epochs{limit}, in turns of some seconds; commands {arguments.repeats} times in turn",
            "",
            "| what | median | min to max | target | | |",
            "| --- | --- | --- | --- | --- | --- |",
            *(row.text() for row in bench.rows),
            "",
        ]
    )


def main(arguments: argparse.Namespace) -> None:
    os.environ.pop("OMP_NUM_THREADS", None)
    machine_words = machine()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        project = arguments.project or generate(scratch)
        data, dataset, words = find_data(scratch, project)
        bench = Bench(arguments, scratch, project.resolve(), data, dataset)
        chosen = arguments.parts or [*MEASURES]
        for name in chosen:
            first = len(bench.rows)
            MEASURES[name](bench)
            for row in bench.rows[first:]:
                print(row.text(), flush=True)
        text = report(bench, words, machine_words)
    print(text)
    arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(MEASURES)}; all of them by default")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5, help="of each command")
    parser.add_argument("--limit", type=int, default=-1, help="batches of an epoch; -1 takes all")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu where the machine is busy")
    parser.add_argument("--project", type=Path, help="a generated project; a new one by default")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    main(parser.parse_args())
