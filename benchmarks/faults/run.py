"""Plant faults in the project, run the debug items on it, and count what they find and what they name.

python benchmarks/faults/run.py                               every fault and every healthy variant; writes RESULTS.md
python benchmarks/faults/run.py --items device,memory         the faults of some items, and those items alone
python benchmarks/faults/run.py --only seed_null,mlp          some faults and variants
python benchmarks/faults/run.py --check                       only whether every change still fits the template
python benchmarks/faults/run.py --train                       only whether the silent faults are silent
python benchmarks/faults/run.py --project P --faults F.json   another project with faults of its own

A fault is run with its own item, `python train.py +debug=<item>`, and is caught by the right item where that fails or
warns and one of its findings names the place. Healthy variants go through the whole checklist. A catch counts only
where the untouched project is silent.
"""

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from command import end_all, set_environment, train
from judge import RIGHT, Outcome, Run, alarms, judge
from results import as_table, totals, write_results
from suite import HERE, Unfit, Variant, foreign, own_faults, own_healthy

TEMPLATE = HERE.parents[1]
LIBRARIES = sorted(TEMPLATE.glob("packages/*/src"))
CHECKLIST = ("training-config", "training-checklist")  # all that a foreign project gets
UNTOUCHED = Variant(id="untouched", what="nothing is changed")


@dataclass(frozen=True)
class Bench:
    """Where the commands run, and how they ask for an item.

    Args:
        project: the untouched project.
        folder: where its changed copies go.
        source: folders that packages are imported from, relative to a copy where they belong to it.
        debug: override that asks for an item.
        always: overrides of every command.
    """

    project: Path
    folder: Path
    source: tuple[str, ...]
    debug: str
    always: tuple[str, ...]

    def run(self, variant: Variant, item: str | None, only: list[str] | None = None) -> Run:
        """Run an item, or training, on a changed copy; what was run in this folder before is not run again."""
        copy = self.folder / "-".join([variant.id, item or "train", *(only or [])])
        record = copy.with_suffix(".json")
        if record.is_file():
            return Run(**json.loads(record.read_text(encoding="utf-8")))
        shutil.rmtree(copy, ignore_errors=True)
        variant.copy(self.project, copy)
        overrides = [*self.always, *map(self.filled, variant.overrides)]
        overrides += [f"{self.debug}={item}"] if item is not None else []
        overrides.sort(key=lambda override: not override.startswith("-"))  # -m
        if only is not None:
            overrides.append(f"hydra.callbacks.debug.only=[{','.join(only)}]")
        run = self.execute(copy, overrides)
        record.write_text(json.dumps(asdict(run)), encoding="utf-8")
        return run

    def train(self, fault: Variant) -> Run:
        """Train a changed copy for an epoch, as if nobody had thought of debugging it."""
        overrides = [override for override in fault.overrides if not override.startswith("callbacks.debug_")]
        several = ("trainer=ddp",) if "distributed" in fault.items else ()
        return self.run(replace(fault, overrides=[*overrides, *several, "trainer.max_epochs=1"]), None)

    def execute(self, copy: Path, overrides: list[str]) -> Run:
        code, seconds = train(copy, self.source, overrides)
        items: dict[str, dict] = {}
        for path in copy.rglob("debug/report.json"):
            if path.parents[2].name == "debug":  # of an item of a checklist
                continue
            for item in json.loads(path.read_text(encoding="utf-8"))["items"]:
                known = items.setdefault(item["item"], item)  # of another job of a sweep
                items[item["item"]] = max(known, item, key=lambda each: len(each["findings"]))
        text = copy.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
        return Run(items, text[-20000:], code, seconds)

    def filled(self, override: str) -> str:
        """Return an override with the path of a checkpoint where it asks for one of the untouched project."""
        if "__BASE_CKPT__" not in override:
            return override
        copy = self.folder / "trained"
        if not copy.is_dir():
            Variant(id="trained", what="").copy(self.project, copy)
            self.execute(copy, list(self.always))
        newest = max(copy.rglob("*.ckpt"), key=lambda path: path.stat().st_mtime)
        return override.replace("__BASE_CKPT__", str(newest))


def main() -> int:
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        folder = Path(arguments.folder or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        bench, faults, healthy = prepare(arguments, folder)
        if arguments.check:
            return check(bench, faults + healthy)
        threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
        # No GPU: the same on every machine.
        common = {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "160", "PYTHONUTF8": "1"}
        set_environment(common | {"OMP_NUM_THREADS": str(threads)})
        try:
            return silence(bench, faults, arguments) if arguments.train else measure(bench, faults, healthy, arguments)
        finally:
            end_all()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, help="faults and healthy variants, by name")
    parser.add_argument("--items", type=names, help="debug items; of healthy variants, only these are run")
    parser.add_argument(
        "--healthy-items", type=names, help="of healthy variants, only these are run: a quicker full run"
    )
    parser.add_argument("--faults-only", action="store_true", help="no healthy variants")
    parser.add_argument("--healthy-only", action="store_true", help="no faults")
    parser.add_argument("--all-items", action="store_true", help="run the whole checklist on every fault, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="commands at a time")
    parser.add_argument("--folder", help="keep copies and reports there; what is there already is not run again")
    parser.add_argument("--train", action="store_true", help="only train every fault, and see which are silent")
    parser.add_argument("--check", action="store_true", help="only say which changes do not fit the template")
    parser.add_argument("--project", type=Path, help="a foreign project, with train.py and configs/")
    parser.add_argument("--faults", type=Path, help="its faults.json")
    parser.add_argument("--results", type=Path, help="where the table goes; RESULTS.md here after a full run")
    arguments = parser.parse_args()
    if (arguments.project is None) != (arguments.faults is None):
        parser.error("--project and --faults belong together")
    if arguments.train and arguments.project is not None:
        parser.error("--train is for this template's own faults")
    return arguments


def names(text: str) -> list[str]:
    return text.split(",")


def prepare(arguments: argparse.Namespace, folder: Path) -> tuple[Bench, list[Variant], list[Variant]]:
    """Return the bench with an untouched project, the faults and the healthy variants that were asked for."""
    own = generate(folder)
    if arguments.project is None:
        faults, healthy = own_faults(), own_healthy()
        bench = Bench(own, folder, ("src", *map(str, LIBRARIES)), "+debug", ("data=mnist_sample",))
    else:
        faults, healthy = foreign(arguments.faults)
        bench = Bench(arguments.project.resolve(), folder, (str(installed(folder)),), "debug", ())
    if arguments.items:
        faults = [fault for fault in faults if fault.items[0] in arguments.items]
    if arguments.only:
        unknown = set(arguments.only) - {each.id for each in faults + healthy}
        if unknown:
            raise SystemExit(f"--only: there is no {', '.join(sorted(unknown))} among faults and healthy variants")
        faults, healthy = ([each for each in group if each.id in arguments.only] for group in (faults, healthy))
    return bench, [] if arguments.healthy_only else faults, [] if arguments.faults_only else healthy


def generate(folder: Path) -> Path:
    """Return a project that was generated from this template with the default answers."""
    out = folder / "generated"
    if not out.is_dir():
        command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", str(out), str(TEMPLATE)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [project] = out.iterdir()
    shutil.rmtree(project / ".git", ignore_errors=True)
    for path in (project / "src", *LIBRARIES):
        compileall.compile_dir(path, quiet=1)  # once, and not in every copy
    return project


def installed(folder: Path) -> Path:
    """Return a folder of libraries with the checklist in it as an installation leaves it; Hydra finds it by itself."""
    libraries = folder / "site-packages"
    for name in CHECKLIST:
        shutil.copytree(TEMPLATE / "packages" / name / "src", libraries, dirs_exist_ok=True)
    return libraries


def check(bench: Bench, variants: list[Variant]) -> int:
    """Say which changes do not fit the template any more."""
    wrong = []
    for variant in variants:
        try:
            variant.files(bench.project)
        except (Unfit, SyntaxError) as error:
            wrong.append(str(error))
    print(*wrong, f"{len(variants) - len(wrong)} of {len(variants)} changes fit", sep="\n")
    return 1 if wrong else 0


def silence(bench: Bench, faults: list[Variant], arguments: argparse.Namespace) -> int:
    """Say which faults are not as silent, or not as loud, as they are said to be."""
    wrong = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for fault, run in zip(faults, pool.map(bench.train, faults), strict=True):
            if fault.silent == (run.code == 0):
                continue
            wrong += 1
            last = [line for line in run.output.splitlines() if "Error" in line][-1:]
            print(
                f"{fault.id} is said to be {'silent' if fault.silent else 'loud'}: exit code {run.code}",
                *last,
                flush=True,
            )
    print(f"{len(faults) - wrong} of {len(faults)} faults are as silent as they are said to be")
    return 1 if wrong else 0


def measure(bench: Bench, faults: list[Variant], healthy: list[Variant], arguments: argparse.Namespace) -> int:
    chosen = arguments.healthy_items or arguments.items
    whole = bool(healthy) and not chosen
    items = None if whole else sorted({*(chosen or ()), *(item for fault in faults for item in fault.items)})
    started = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        untouched = pool.submit(bench.run, UNTOUCHED, "checklist", items)
        jobs: dict[Future, Variant] = {}
        for variant in healthy:
            jobs[pool.submit(bench.run, variant, "checklist", chosen)] = variant
        for fault in faults:
            jobs[pool.submit(run_fault, bench, fault, arguments.all_items)] = fault
        outcomes, runs = [], {}
        for done, job in enumerate(as_completed(jobs), start=1):
            variant, result = jobs[job], job.result()
            if isinstance(result, list):
                result = outcome(variant, result, silent_items(untouched.result()))
            line = show(result) if isinstance(result, Outcome) else show_healthy(variant, result)
            print(f"[{done}/{len(jobs)}, {time.monotonic() - started:.0f} s] {line}", flush=True)
            if isinstance(result, Outcome):
                outcomes.append(result)
            else:
                runs[variant.id] = result
    outcomes.sort(key=lambda each: [fault.id for fault in faults].index(each.fault.id))
    if healthy:
        runs = {UNTOUCHED.id: untouched.result(), **{variant.id: runs[variant.id] for variant in healthy}}
    print("", *([as_table(outcomes), ""] if outcomes else []), *totals(outcomes, runs), sep="\n")
    full = not (arguments.only or arguments.items or arguments.project or arguments.faults_only)
    target = arguments.results or (HERE / "RESULTS.md" if full and not arguments.healthy_only else None)
    if target is not None:
        write_results(target, outcomes, runs, sys.argv[1:], time.monotonic() - started)
    return 0


def run_fault(bench: Bench, fault: Variant, all_items: bool) -> list[Run]:
    """Run the fault's items until one names the place, then the whole checklist where that is asked for."""
    runs = []
    for item in fault.items:
        runs.append(bench.run(fault, item))
        if judge(fault, runs[-1], set(runs[-1].items)).status == RIGHT:
            break
    return [*runs, bench.run(fault, "checklist")] if all_items else runs


def outcome(fault: Variant, runs: list[Run], quiet: set[str]) -> Outcome:
    """Return what the first run that names the place has to say, else the first one that says anything."""
    found = [judge(fault, run, quiet) for run in runs]
    best = next((each for each in found if each.status == RIGHT), None) or max(found, key=lambda each: bool(each.by))
    return replace(best, seconds=sum(each.seconds for each in found), loud=found[-1].loud)


def silent_items(untouched: Run) -> set[str]:
    """Return the items that have nothing to say about the untouched project."""
    return set(untouched.items) - set(alarms(untouched))


def show(found: Outcome) -> str:
    by = f" by {found.by}{'' if found.place else ', place not named'}" if found.by else ""
    return f"{found.fault.id} ({found.fault.items[0]}): {found.status}{by}, {found.seconds:.0f} s: {found.said[:140]}"


def show_healthy(variant: Variant, run: Run) -> str:
    said = [f"FALSE ALARM of {item}: {text[:160]}" for item, text in alarms(run).items()]
    skipped = [item for item, verdict in run.items.items() if verdict["verdict"] == "skipped"]
    said += [f"skipped: {', '.join(skipped)}"] if skipped else []
    return f"{variant.id} (healthy), {run.seconds:.0f} s: {'; '.join(said) or 'silent' if run.items else 'NO REPORT'}"


if __name__ == "__main__":
    sys.exit(main())
