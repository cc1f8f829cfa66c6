"""Run the checklist on healthy projects around LightningModules that others wrote: whatever it says there is judged.

python benchmarks/adoption/run.py                            every project, the whole checklist; writes RESULTS.md
python benchmarks/adoption/run.py --only gan,vae --items overfit,trace    some projects, some items
python benchmarks/adoption/run.py --train                    only whether every project trains soundly
python benchmarks/adoption/run.py --as-pytorch-lightning     projects of `lightning` run with `pytorch_lightning`
python benchmarks/adoption/run.py --folder runs --gather     runs nothing; RESULTS.md from all results in runs

A project is a folder of projects/: train.py, configs/, and project.yaml, which says where its modules come from. It is
copied and run as its owner would, `python train.py debug=checklist`, with the packages of requirements.txt and the
checklist as an installation leaves it. A finding is a false alarm, unless judgements.yaml says that it is true.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tables import print_project, print_table, write_results

HERE = Path(__file__).resolve().parent
PACKAGES = HERE.parents[1] / "packages"
CHECKLIST = ("training-config", "training-checklist")
DEFAULT_ENVIRONMENT = HERE.parents[1] / ".venv" / "adoption"
TIME_LIMIT = 1800  # seconds of one command


@dataclass(frozen=True)
class Project:
    """A project of projects/, as its project.yaml describes it.

    Args:
        package: distribution that the modules come from.
        source: what is taken from it.
        task: kind of task.
        covers: what this project has that could be taken for a fault.
        loss: metric that must fall, for a module whose training_step returns no loss.
        overrides: further arguments of its command line.
        needs: folders of the environment's `extras` that are on its path.
    """

    name: str
    package: str
    source: str
    task: str
    covers: str
    loss: str | None = None
    overrides: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        text = (HERE / "projects" / self.name / "train.py").read_text(encoding="utf-8")
        return "lightning" if "import lightning" in text or "from lightning" in text else "pytorch_lightning"


@dataclass
class Run:
    """What came of one project.

    Args:
        items: entries of report.json, by item.
        code: exit code of the command.
        seconds: what it took.
        losses: mean of the first and of the last quarter of its losses, where it was trained.
        sound: whether the losses fell.
        output: end of what was printed.
        when: it was run, in UTC; the last of several commands.
    """

    items: dict[str, dict[str, Any]]
    code: int
    seconds: float
    losses: tuple[float, float] | None = None
    sound: bool | None = None
    output: str = ""
    version: str = ""
    when: str = ""


@dataclass(frozen=True)
class Bench:
    python: Path
    extras: Path
    folder: Path
    renamed: bool

    def command(self, project: Project, kind: str, *arguments: str) -> tuple[Path, int, float]:
        """Run python in a fresh copy; return the copy, the exit code and the seconds."""
        copy = self.folder / f"{project.name}-{kind}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(HERE / "projects" / project.name, copy)
        paths = [self.folder / "site-packages", *(self.extras / name for name in project.needs)]
        paths += [HERE / "as_pytorch_lightning"] if self.renamed else []
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, paths)), OMP_NUM_THREADS="1")
        environment |= {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "160", "PYTHONUTF8": "1"}
        environment["TRAINING_CHECKLIST_GROUP"] = "debug"  # which their configs name
        started = time.monotonic()
        with copy.with_suffix(".txt").open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [str(self.python), *arguments], cwd=copy, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(TIME_LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                code = process.wait()
        return copy, code, round(time.monotonic() - started, 1)

    def train(self, project: Project) -> Run:
        """Train as its owner would, and see whether the loss falls."""
        curve = self.folder / f"{project.name}-losses.json"
        curve.unlink(missing_ok=True)
        overrides = [each for each in project.overrides if not each.startswith("checks.")]
        script = [str(HERE / "loss_curve.py"), str(curve), project.loss or "-", "train.py"]
        copy, code, seconds = self.command(project, "train", *script, *overrides)
        losses = json.loads(curve.read_text(encoding="utf-8")) if curve.is_file() else []
        run = Run({}, code, seconds, output=tail(copy))
        run.losses, run.sound = fall(losses)
        run.sound = run.sound and code == 0
        return run

    def check(self, project: Project, items: list[str] | None) -> Run:
        """Run the checklist, or some of its items."""
        only = [f"hydra.callbacks.debug.only=[{','.join(items)}]"] if items else []
        copy, code, seconds = self.command(
            project, "checklist", "train.py", "debug=checklist", *project.overrides, *only
        )
        found = read_reports(copy)
        if not found:
            found = {"checklist": {"item": "checklist", "verdict": "no report", "findings": [], "output": tail(copy)}}
        return Run(found, code, seconds, output=tail(copy))


def fall(losses: list[float]) -> tuple[tuple[float, float] | None, bool]:
    """Return the means of the first and last quarter, and whether they differ by more than chance explains.

    Two standard errors of their difference: the usual bound of a one-sided test at about 2.5 %.
    """
    part = len(losses) // 4
    if part < 2:
        return None, False
    first, last = losses[:part], losses[-part:]
    error = ((statistics.variance(first) + statistics.variance(last)) / part) ** 0.5
    means = statistics.mean(first), statistics.mean(last)
    return means, means[0] - means[1] > 2 * error


def read_reports(copy: Path) -> dict[str, dict[str, Any]]:
    """Return the items of all reports of a copy but those of a checklist's items."""
    items: dict[str, dict[str, Any]] = {}
    for path in sorted(copy.rglob("debug/report.json")):
        if path.parents[2].name == "debug":
            continue
        for item in json.loads(path.read_text(encoding="utf-8"))["items"]:
            items[item["item"]] = item
    return items


def tail(copy: Path) -> str:
    return copy.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")[-4000:]


def main() -> int:
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="adoption-") as scratch:
        folder = Path(arguments.folder or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        environment = arguments.environment.resolve()
        python = install(environment)
        if arguments.gather:
            return gather(python, folder, arguments)
        shutil.rmtree(folder / "site-packages", ignore_errors=True)
        for name in CHECKLIST:  # as an installation leaves them
            shutil.copytree(PACKAGES / name / "src", folder / "site-packages", dirs_exist_ok=True)
        bench = Bench(python, environment / "extras", folder, arguments.as_pytorch_lightning)
        return measure(bench, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, help="projects, by name")
    parser.add_argument("--items", type=names, help="debug items")
    parser.add_argument("--train", action="store_true", help="only train, and see whether the loss falls")
    parser.add_argument("--no-train", action="store_true", help="believe that every project trains soundly")
    parser.add_argument("--as-pytorch-lightning", action="store_true", help="`lightning` is pytorch_lightning")
    parser.add_argument("--environment", type=Path, default=DEFAULT_ENVIRONMENT, help="made where there is none")
    parser.add_argument("--folder", help="keep copies, outputs and results there")
    parser.add_argument("--again", action="store_true", help="run what --folder has results of, too")
    parser.add_argument("--gather", action="store_true", help="run nothing; tables of all results in --folder")
    parser.add_argument("--results", type=Path, help="where the tables go; RESULTS.md here after a full run")
    return parser.parse_args()


def names(text: str) -> list[str]:
    return text.split(",")


def install(environment: Path) -> Path:
    """Return the python of an environment with requirements.txt, and with each of `extras` in a folder of its own."""
    python = environment / "bin" / "python"
    if (environment / "installed").is_file():
        return python
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True)
    for extra in sorted((HERE / "extras").glob("*.txt")):
        target = environment / "extras" / extra.stem
        subprocess.run([*pip, "--target", str(target), "-r", str(extra)], check=True)
    (environment / "installed").touch()
    return python


def projects(python: Path, only: list[str] | None) -> list[Project]:
    """Return the projects, read by the environment's python: it has a YAML reader, this one need not."""
    folders = sorted(path.parent for path in HERE.glob("projects/*/project.yaml"))
    unknown = set(only or ()) - {folder.name for folder in folders}
    if unknown:
        raise SystemExit(f"--only: there is no {', '.join(sorted(unknown))} in projects/")
    return [
        Project(folder.name, **read_yaml(python, folder / "project.yaml"))
        for folder in folders
        if only is None or folder.name in only
    ]


def read_yaml(python: Path, path: Path) -> Any:
    program = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], encoding='utf-8'))))"
    return json.loads(subprocess.check_output([str(python), "-c", program, str(path)]))


def version(python: Path, package: str) -> str:
    program = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    return subprocess.check_output([str(python), "-c", program, package], text=True).strip()


def measure(bench: Bench, arguments: argparse.Namespace) -> int:
    chosen = projects(bench.python, arguments.only)
    judgements = read_yaml(bench.python, HERE / "judgements.yaml")
    runs: dict[str, Run] = {}
    for project in chosen:
        record = bench.folder / f"{'-'.join([project.name, *(arguments.items or ())])}.json"
        if record.is_file() and not (arguments.again or arguments.train):
            runs[project.name] = Run(**json.loads(record.read_text(encoding="utf-8")))
        else:
            runs[project.name] = one(bench, project, arguments)
            if not arguments.train:
                record.write_text(json.dumps(asdict(runs[project.name])), encoding="utf-8")
        print_project(project, runs[project.name], judgements)
    if arguments.train:
        return 0 if all(run.sound for run in runs.values()) else 1
    alarms = print_table(chosen, runs, judgements)
    full = not (arguments.only or arguments.items)
    target = arguments.results or (HERE / "RESULTS.md" if full else None)
    if target is not None:
        write_results(target, chosen, runs, judgements, sys.argv[1:])
    return 1 if alarms else 0


def gather(python: Path, folder: Path, arguments: argparse.Namespace) -> int:
    """Write the tables of what commands have left in a folder, each of some projects and items."""
    known, judgements = projects(python, arguments.only), read_yaml(python, HERE / "judgements.yaml")
    runs = {project.name: run for project in known if (run := put_together(folder, project.name)) is not None}
    chosen = [project for project in known if project.name in runs]
    alarms = print_table(chosen, runs, judgements)
    missing = [project.name for project in known if project.name not in runs]
    write_results(arguments.results or HERE / "RESULTS.md", chosen, runs, judgements, sys.argv[1:], missing)
    return 1 if alarms else 0


def put_together(folder: Path, name: str) -> Run | None:
    """Return all items that commands have run of a project, of each what came last; None where there are none."""
    paths = {*folder.glob(f"{name}.json"), *folder.glob(f"{name}-*.json")} - {folder / f"{name}-losses.json"}
    found = None
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        run = Run(**json.loads(path.read_text(encoding="utf-8")))
        run.when = run.when or f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M}"
        if found is not None:
            run.items, run.seconds = {**found.items, **run.items}, found.seconds + run.seconds
            run.losses, run.sound = (run.losses, run.sound) if run.sound is not None else (found.losses, found.sound)
        found = run
    return found


def one(bench: Bench, project: Project, arguments: argparse.Namespace) -> Run:
    trained = None if arguments.no_train else bench.train(project)
    if arguments.train:
        run = trained
    else:
        run = bench.check(project, arguments.items)
        run.losses, run.sound = (None, None) if trained is None else (trained.losses, trained.sound)
        run.output = run.output if trained is None or trained.sound else trained.output + run.output
    run.version, run.when = version(bench.python, project.package), f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    return run


if __name__ == "__main__":
    sys.exit(main())
