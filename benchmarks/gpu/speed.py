"""Measure a generated project on a GPU beside a bare loop whose data lie there, and print the rows as JSON.

python benchmarks/gpu/speed.py fp32 waits --project <folder> --device cuda

Part of run.sh, with benchmarks/speed on PYTHONPATH: contenders, turns and the bare loop are those of that benchmark.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench import HERE
from loader import write_images
from run import Bench, Row, find_data, measure, race

BATCH = 512
MOST = 1.10  # of the bare loop's time for an epoch
# Name, options of the bare loop, overrides of the project.
FLAVOURS = {
    "fp32": ([], []),
    "bf16": (["--bf16"], ["trainer.precision=bf16-mixed"]),
    "compile": (["--compile", "default"], ["model.compile=true"]),
    "cuda graphs": (["--compile", "reduce-overhead"], ["model.compile=reduce-overhead"]),
}
STEPS = 8  # in which waits are counted
IMAGES = {"cuda": 2048, "cpu": 64}  # of 224x224: some seconds to write on the machine at hand


def accelerator(bench: Bench) -> list[str]:
    return ["trainer=auto", f"trainer.accelerator={'gpu' if bench.arguments.device == 'cuda' else 'cpu'}"]


def epoch(bench: Bench, name: str) -> list[Row]:
    """A whole run with the defaults on, beside the bare loop; in FP32 also Lightning as people usually write it."""
    options, overrides = FLAVOURS[name]
    device = bench.arguments.device
    commands = {
        "bare": bench.bare("--device", device, "--batch-size", str(BATCH), *options),
        "project": bench.train(*accelerator(bench), f"data.batch_size={BATCH}", *overrides),
    }
    if name == "fp32":
        limit, stretch = bench.limits(1)
        usual = [sys.executable, str(HERE / "usual.py"), "--data", str(bench.data), "--dataset", bench.dataset]
        usual += ["--device", device, "--batch-size", str(BATCH), "--epochs", str(bench.arguments.epochs)]
        commands["usual"] = [*usual, "--limit", limit, "--stretch", stretch]
    result = race(bench, commands)
    accuracy = ", ".join(f"{contender} {value:.4f}" for contender, value in sorted(result.accuracy.items()))
    what = f"epoch, {name}, batch {BATCH}, beside a bare loop with its data on the device"
    rows = [Row(what, result.ratios("project", "bare", "wall"), MOST, remark=f"test accuracy: {accuracy}")]
    if "usual" in commands:
        rows.append(Row(f"{what}: Lightning as usually written", result.ratios("usual", "bare", "wall")))
    return rows


def waits(bench: Bench) -> list[Row]:
    """How often the host waits for the device in a step that is not logged."""
    ways = {
        "fp32": [],
        "fp32, batches cut on the CPU": ["data.device=cpu"],
        "bf16": ["trainer.precision=bf16-mixed"],
    }
    if bench.arguments.device == "cuda":
        ways["fp16"] = ["trainer.precision=16-mixed"]
    rows = []
    for name, overrides in ways.items():
        path = bench.scratch / "waits"
        count = [f"+callbacks.waits.{key}={value}" for key, value in (("path", path), ("steps", STEPS))]
        count += [
            "+callbacks.waits._target_=callbacks.CountWaits",
            "++callbacks.turns=null",
            f"trainer.log_every_n_steps={STEPS + 2}",
        ]
        command = bench.train(
            *accelerator(bench), f"++trainer.limit_train_batches={4 * (STEPS + 2)}", "test=false", *count, *overrides
        )
        measure(command, bench.project, bench.environment())
        told = dict(line.split() for line in path.read_text(encoding="utf-8").splitlines())
        remark = ", ".join(f"{what} {number}" for what, number in told.items())
        if name == "fp16":
            remark += "; torch's GradScaler looks for Inf on the host in every step"
        samples = [sum(map(int, told.values())) / STEPS]
        limit = None if name == "fp16" else 0
        rows.append(Row(f"waits for the device in a step, {name}", samples, limit, unit="", remark=remark))
    return rows


def folder(bench: Bench) -> list[Row]:
    """ResNet-18 on 224x224 images from a folder: the share of the time in which no kernel runs, and images a second."""
    device = bench.arguments.device
    images, workers = bench.scratch / "photographs", max(1, (os.cpu_count() or 1) - 2)
    write_images(images, IMAGES[device])
    path, steps = bench.scratch / "idle", 40 if device == "cuda" else 1
    size = ["data.batch_size=64", f"data.num_workers={workers}"] if device == "cuda" else ["data.batch_size=4"]
    command = [sys.executable, "train.py", "data=image_folder", f"data.folder={images}", "model=torchvision", *size]
    command += [*accelerator(bench), "trainer.precision=bf16-mixed", "trainer.max_epochs=4", "test=false"]
    command += [f"data_dir={bench.scratch}", "figures=false", "+callbacks.idle._target_=watching.Idle"]
    command += [f"+callbacks.idle.path={path}", f"+callbacks.idle.steps={steps}"]
    measure(command, bench.project, bench.environment())
    told = json.loads(path.read_text(encoding="utf-8"))
    rate = steps * (64 if device == "cuda" else 4) / told["seconds"]
    remark = f"{workers} workers, {os.cpu_count()} CPU cores, ResNet-18 in BF16"
    rows = [Row("images/s, 224x224 from a folder", [rate], unit="", remark=remark)]
    if told["idle"] is not None:
        rows.append(Row("share of the time that no kernel runs, 224x224 from a folder", [told["idle"]], unit=""))
    return rows


MEASURES: dict[str, Callable[[Bench], list[Row]]] = {"waits": waits, "folder": folder}


def main(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        data, dataset, words = find_data(Path(scratch), arguments.project)
        bench = Bench(arguments, Path(scratch), arguments.project.resolve(), data, dataset)
        name = arguments.measure
        rows = MEASURES[name](bench) if name in MEASURES else epoch(bench, name)
    print(json.dumps({"data": words, "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=[*FLAVOURS, *MEASURES])
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=-1, help="batches of an epoch; -1 takes all")
    main(parser.parse_args())
