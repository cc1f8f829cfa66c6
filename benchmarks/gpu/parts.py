"""The parts of this benchmark: what each runs, and the rows that it makes of it."""

import json
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench import FAULTS, HERE, TEMPLATE, Bench, Broken, Row, judged, record, verdicts
from wheels import LOCKS, locked

PACKAGES = ("torch", "torchvision", "triton", "pytorch-lightning", "torchmetrics", "hydra-core", "omegaconf", "numpy")
PRESETS = ("gpu", "amp", "bf16", "mixed", "deterministic", "ddp", "fsdp")
SHORT = ["++trainer.limit_train_batches=20", "++trainer.limit_val_batches=4", "++trainer.limit_test_batches=4"]
TWO_STEPS = ["trainer.max_epochs=1", *(f"++trainer.limit_{split}_batches=2" for split in ("train", "val", "test"))]
FIRST_SCALE = 65536.0  # of torch's GradScaler
NEAR = 0.10  # how far the predicted peak of memory may be from the measured one
# Each is trained at these sizes, so that activations, parameters or both make the peak; on a GPU so large that the
# workspace of cuBLAS, which no prediction counts, is a few percent of it (32 MiB on Hopper).
LARGE, SMALL = ("3400", "[8192,8192]"), ("512", "[512,512]")
MEMORY = {
    "the default CNN": ["data.batch_size={0}"],
    "the default CNN in BF16": ["data.batch_size={0}", "trainer.precision=bf16-mixed"],
    "a wide network": ["model=mlp", "model.net.hidden_sizes={1}", "data.batch_size=512"],
}


@dataclass(frozen=True)
class Part:
    """Something to settle.

    Attributes:
        seconds: it may take on a machine with a GPU and many cores, where a command takes 20 with others beside it; a
            rehearsal may take `PATIENCE` times as long.
    """

    name: str
    run: Callable[[Bench], list[Row]]
    seconds: int = 240

    @property
    def is_timed(self) -> bool:
        return self.name.startswith("speed ")


PATIENCE = 6


def machine(bench: Bench) -> list[Row]:
    """Versions, and which of them are not those of the lock."""
    target = {"python_version": f"{sys.version_info.major}.{sys.version_info.minor}"}
    target |= {"python_full_version": platform.python_version(), "sys_platform": sys.platform}
    target |= {"platform_machine": platform.machine(), "platform_system": platform.system(), "os_name": "posix"}
    entries = locked(LOCKS[0], target)
    pinned = {name: entry.partition("==")[2].split()[0] for name, entry in entries.items()}
    rows = [Row("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            here = version(name)
        except PackageNotFoundError:
            here = "none"
        same = here.partition("+")[0] == pinned.get(name)
        remark = "" if same else f"the lock has {pinned.get(name)}; torch is this machine's own, and what fits it"
        rows.append(Row(name, here, remark=remark))
    if bench.on_gpu:
        asked = bench.python("-c", "import torch; print(torch.cuda.get_device_name(), torch.version.cuda)")
        rows.append(Row("device", asked.last))
        query = ["nvidia-smi", "--query-gpu=driver_version,memory.total", "--format=csv,noheader"]
        if shutil.which(query[0]):
            rows.append(Row("driver, memory", subprocess.run(query, capture_output=True, text=True).stdout.strip()))
    return rows


def on_device(bench: Bench, preset: str) -> tuple[list[str], str]:
    """Return the overrides of a trainer preset, and what a rehearsal on the CPU cannot have of it."""
    if bench.on_gpu:
        return [f"trainer={preset}"], ""
    overrides = [f"trainer={preset}", "trainer.accelerator=cpu"]
    if preset == "amp":
        return [*overrides, "trainer.precision=bf16-mixed"], "BF16 instead of FP16: the CPU has no GradScaler"
    if preset == "ddp":
        return overrides, "two processes over gloo"
    return overrides, ""


def preset(bench: Bench, name: str) -> list[Row]:
    """Train, test, resume, and evaluate on the CPU with one option of conf/trainer."""
    what = f"trainer={name}"
    if name == "fsdp" and not bench.on_gpu:
        refused = bench.train("refused", "trainer=fsdp", must=False)
        right = refused.code not in (0, None) and "accelerator" in refused.output
        return [judged(what, right, "refused in one line", "needs a GPU", refused.last)]
    overrides, lacks = on_device(bench, name)
    bench.train("run", *overrides, *SHORT, "trainer.max_epochs=1")
    first = record(bench.run("run"))
    run = bench.run("run")
    bench.python("train.py", f"resume={run}", "trainer.max_epochs=2")
    resumed = record(run)
    states = first["state"] == resumed["state"] == "finished" and len(resumed["starts"]) == 2
    rows = [judged(f"{what}: trained, tested, resumed", states, resumed["state"], "finished", lacks)]
    bench.python("eval.py", f"run={run}", "accelerator=cpu", hidden=True)
    own = resumed["metrics"]["test/accuracy"]
    rows.append(
        judged(f"{what}: evaluated without a GPU", True, "done", "done", f"test/accuracy of its batches {own:.4f}")
    )
    bench.keep(run / "run.json", "run.json")
    if name == "amp":
        rows.append(scaler(bench, run))
    return rows


def scaler(bench: Bench, run: Path) -> Row:
    """Whether the checkpoint has the state of the GradScaler."""
    what = "trainer=amp: GradScaler in last.ckpt"
    if not bench.on_gpu:
        return Row(what, "none", remark="FP16 with scaling needs a GPU")
    state = checkpoint(run / "checkpoints" / "last.ckpt").get("MixedPrecision", {})
    tracked = state.get("_growth_tracker")
    return judged(what, "scale" in state, f"scale {state.get('scale')}, {tracked} steps since it changed", "there")


def checkpoint(path: Path) -> dict[str, Any]:
    import torch  # once a part needs it

    return torch.load(path, map_location="cpu", weights_only=True)


def same_bits(ours: Path, theirs: Path) -> bool:
    """Whether two runs ended with the same weights and the same optimizer, to the last bit."""
    import torch

    for key in ("state_dict", "optimizer_states"):
        pairs = [tensors(checkpoint(run / "checkpoints" / "last.ckpt")[key]) for run in (ours, theirs)]
        if len(pairs[0]) != len(pairs[1]) or not all(map(torch.equal, *pairs)):
            return False
    return True


def tensors(value: Any) -> list[Any]:
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if hasattr(leaf, "shape")]


def exact(bench: Bench) -> list[Row]:
    """With trainer=deterministic: the same again, a resume amid an epoch, and batches cut elsewhere, bit by bit."""
    overrides, _ = on_device(bench, "deterministic")
    always = [*overrides, *SHORT, "trainer.max_epochs=2", "test=false"]
    stop = ["+callbacks.stop._target_=watching.StopAt", "+callbacks.stop.step=25"]
    elsewhere = "cpu" if bench.on_gpu else "auto"
    runs = {"straight": [], "again": [], "stopped": stop, "elsewhere": [f"data.device={elsewhere}"]}
    bench.each(lambda name: bench.train(name, *always, *runs[name], must=name != "stopped"), list(runs))
    stopped = record(bench.run("stopped"))
    bench.python("train.py", f"resume={bench.run('stopped')}", "allow=[watching.StopAt]")
    straight = bench.run("straight")
    ends = f"stopped at step 25 of 40 ({stopped['state']}), resumed"
    where = "on the GPU and on the CPU" if bench.on_gpu else "with data.device=auto and the same again"
    texts = {"again": "trained twice", "stopped": ends, "elsewhere": f"batches cut {where}"}
    return [
        judged(f"trainer=deterministic: {text}", same_bits(straight, bench.run(name)), "compared", "the same bits")
        for name, text in texts.items()
    ]


def compiled(bench: Bench, mode: str) -> list[Row]:
    """Train, resume and evaluate what torch.compile has translated; names in the checkpoint are the network's own."""
    overrides, _ = on_device(bench, "gpu" if bench.on_gpu else "auto")
    run = bench.run("run")
    bench.train("run", *overrides, *SHORT, "trainer.max_epochs=1", f"model.compile={mode}")
    bench.python("train.py", f"resume={run}", "trainer.max_epochs=2")
    bench.python("eval.py", f"run={run}", "accelerator=cpu", hidden=True)
    names = checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]
    done = record(run)["state"] == "finished" and not any("_orig_mod" in name for name in names)
    return [judged(f"model.compile={mode}: trained, tested, resumed, evaluated on the CPU", done, "done", "done")]


def memory(bench: Bench) -> list[Row]:
    """The peak that +debug=memory predicts beside the one that the allocator has seen."""
    return bench.each(partial(memory_row, bench), list(MEMORY))


def memory_row(bench: Bench, name: str) -> Row:
    try:
        return peak(bench, name)
    except Broken as error:  # what the others have measured is kept
        return Row(f"peak of memory, {name}", "", verdict="failed", remark=str(error))


def peak(bench: Bench, name: str) -> Row:
    sizes, number = LARGE if bench.on_gpu else SMALL, str(list(MEMORY).index(name))
    overrides = [override.format(*sizes) for override in MEMORY[name]]
    bench.train(f"predicted-{number}", "+debug=memory", *overrides)
    predicted = verdicts(bench.run(f"predicted-{number}"))["memory"]["facts"]["predicted_gb"] * 2**30
    what = f"peak of memory, {name}: {' '.join(overrides)}"
    if not bench.on_gpu:
        return Row(what, f"predicted {predicted / 2**20:.0f} MiB", f"within {NEAR:.0%}", remark="not measured")
    found = bench.work / f"peak-{number}.json"
    watch = ["+callbacks.peak._target_=watching.PeakMemory", f"+callbacks.peak.path={found}"]
    bench.train(f"measured-{number}", "trainer=gpu", "trainer.max_epochs=4", "data.device=cpu", *watch, *overrides)
    measured = json.loads(found.read_text(encoding="utf-8"))["peak"]
    told = f"predicted {predicted / 2**20:.0f} MiB, measured {measured / 2**20:.0f} MiB"
    return judged(what, abs(predicted / measured - 1) <= NEAR, told, f"within {NEAR:.0%}")


def device_faults(bench: Bench) -> list[Row]:
    """What +debug=device says of each planted fault of devices beside what the device itself says of it."""
    suite = faults()
    variants = [fault for fault in suite.own_faults() if fault.items[0] == "device"]
    variants.append(suite.Variant(id="untouched", what="nothing is changed"))
    return bench.each(partial(device_row, bench), variants)


def faults() -> Any:
    sys.path.insert(0, str(FAULTS))
    import suite

    return suite


def device_row(bench: Bench, variant: Any) -> Row:
    copy = bench.work / "copies" / variant.id
    shutil.rmtree(copy, ignore_errors=True)
    variant.copy(bench.project, copy)
    bench.train(f"{variant.id}-debug", "+debug=device", project=copy, must=False)
    said = verdicts(bench.run(f"{variant.id}-debug")).get("device", {"verdict": "no report", "findings": []})
    faulty, found = variant.id != "untouched", said["verdict"] == "failed"
    what, verdict = f"{variant.id}: {variant.what}", f"+debug=device {said['verdict']}"
    if not bench.on_gpu:
        return judged(what, found == faulty, verdict, "fails" if faulty else "passes", "not trained")
    # Cut on the CPU: the transfer is a part of what is tried.
    real = bench.train(f"{variant.id}-real", "trainer=gpu", "data.device=cpu", *TWO_STEPS, project=copy, must=False)
    raised = real.code not in (0, None)
    value = f"{verdict}; training {'raised' if raised else 'went through'}"
    target = "fails; raises" if faulty else "passes; goes through"
    return judged(what, found == raised == faulty, value, target, real.last if raised else "")


def overflow(bench: Bench) -> list[Row]:
    """+debug=overflow where a value leaves FP16's range, and what the GradScaler makes of it without."""
    [fault] = [fault for fault in faults().own_faults() if fault.id == "too_large_for_fp16"]
    copy = bench.work / "copies" / fault.id
    shutil.rmtree(copy, ignore_errors=True)
    replace(fault, overrides=()).copy(bench.project, copy)
    overrides, lacks = on_device(bench, "amp")
    bench.train("debug", *overrides, "+debug=overflow", project=copy, must=False)
    said = verdicts(bench.run("debug")).get("overflow", {"verdict": "no report", "findings": []})
    found = said["verdict"] in ("failed", "warning")
    remark = " ".join(str(said["findings"][0]["what"]).split())[:200] if said["findings"] else lacks
    rows = [judged("+debug=overflow, FP16, a value out of its range", found, said["verdict"], "failed", remark)]
    bench.train("healthy", *overrides, "+debug=overflow", must=False)
    said = verdicts(bench.run("healthy")).get("overflow", {"verdict": "no report"})
    rows.append(
        judged("+debug=overflow, FP16, the untouched project", said["verdict"] == "passed", said["verdict"], "passed")
    )
    if bench.on_gpu:
        bench.train("real", *overrides, *TWO_STEPS, project=copy)
        scale = float(checkpoint(bench.run("real") / "checkpoints" / "last.ckpt")["MixedPrecision"]["scale"])
        text = f"{scale:g} of {FIRST_SCALE:g}"
        rows.append(judged("without it: the GradScaler has gone back", scale < FIRST_SCALE, text, "smaller"))
    return rows


def checklist(bench: Bench) -> list[Row]:
    """The whole checklist on the device."""
    trainer = ["trainer=auto", f"trainer.accelerator={bench.accelerator}"]
    bench.train("run", "+debug=checklist", *trainer, must=False)
    said = verdicts(bench.run("run"))
    if not said:
        raise Broken("no report")
    report = bench.run("run") / "debug" / "report.md"
    bench.keep(report, "report.md")
    alone = {"distributed"} if bench.on_gpu else set()  # which one GPU has no peer for
    loud = {item: verdict for item, verdict in said.items() if verdict["verdict"] != "passed"}
    remark = "; ".join(
        f"{item} {each['verdict']}: {each['findings'][0]['what'] if each['findings'] else each['skipped']}"
        for item, each in loud.items()
    )
    value = f"{len(said) - len(loud)} of {len(said)} items passed"
    wrong = any(item not in alone or verdict["verdict"] != "skipped" for item, verdict in loud.items())
    return [judged("+debug=checklist, the untouched project", not wrong, value, "all", " ".join(remark.split())[:300])]


def speed(bench: Bench, measure: str) -> list[Row]:
    """A measure of speed.py."""
    command: list[object] = [HERE / "speed.py", measure, "--project", bench.project, "--device", bench.device]
    command += [] if bench.on_gpu else ["--limit", "3", "--epochs", "1"]
    finished = bench.python(*command)
    told = json.loads(finished.output.splitlines()[-1])
    return [as_row(each, told["data"]) for each in told["rows"]]


def as_row(told: dict[str, Any], data: str) -> Row:
    """Return a row of this table of one that speed.py has printed."""
    samples, limit = told["samples"], told["limit"]
    median = statistics.median(samples)
    spread = f" ({min(samples):.3f} to {max(samples):.3f})" if len(samples) > 1 else ""
    value = f"{median:.3f} {told['unit']}".strip() + spread
    remark = "; ".join(filter(None, (told["remark"], data if "epoch" in told["what"] else "")))
    if limit is None:
        return Row(told["what"], value, remark=remark)
    return judged(told["what"], median <= limit, value, f"≤ {limit:g}", remark)


PARTS = (
    Part("machine", machine),
    *(Part(f"preset {name}", partial(preset, name=name)) for name in PRESETS),
    Part("exact", exact),
    Part("speed fp32", partial(speed, measure="fp32")),
    Part("speed waits", partial(speed, measure="waits")),
    Part("memory", memory),
    Part("device faults", device_faults),
    Part("overflow", overflow),
    Part("checklist", checklist),
    *(Part(f"compile {mode}", partial(compiled, mode=mode)) for mode in ("true", "reduce-overhead")),
    Part("speed folder", partial(speed, measure="folder")),
    *(Part(f"speed {name}", partial(speed, measure=name)) for name in ("bf16", "compile", "cuda graphs")),
)


def generate(folder: Path) -> Path:
    """Return a project that was generated from this template with the default answers."""
    command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", str(folder), str(TEMPLATE)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [project] = folder.iterdir()
    return project
