"""Run the checklist on mistakes that real projects have made and mended, and on the mended code; count what it names.

python benchmarks/real/run.py                        every mistake and its mended twin; writes RESULTS.md
python benchmarks/real/run.py --only double_softmax  some of them, and prints the reports
python benchmarks/real/run.py --check                only whether all of them can be built and take one training step
python benchmarks/real/run.py --folder F             keeps the reports in F; what lies there is not run again

A mistake is one file of mistakes/, or a folder where it lies in a script or its config. Nothing in them is copied: they
are small modules of this benchmark's own around a mistake that the commit beside it has mended. Each file has

    SOURCE      repository and commit
    WRONG       what was wrong, in a sentence
    NAMED       what a verdict has to say: ids of rules, each with an expression that finds the place in its finding
    NEEDS       where it is not named: why, and what it would need
    TWIN        rules that are right about the mended code, too, each with the reason
    ALARMS      rules that are wrong about the mended code, each with what misleads them
    TRAINER     arguments of the Trainer
    LOUD        whether training raises by itself
    ITEMS       of the checklist, where it is not the usual ones
    parts       (mended) -> module and datamodule; a folder has train.py and config.yaml in its place, and
    MEND        texts that mend them: what stands there once, and what is put there, by file

`named` is the cause and the place: a finding of such a rule that has the place. `noticed` is any other finding that the
twin has not. Only failures and warnings count, no remarks.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from results import as_table, totals, write_results

HERE = Path(__file__).resolve().parent
LIBRARIES = [HERE.parents[1] / "packages" / name / "src" for name in ("training-config", "training-checklist")]
sys.path[:0] = [str(HERE), *map(str, LIBRARIES)]

import pytorch_lightning  # noqa: E402
import torch  # noqa: E402
import training_checklist  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

# No GPU and one thread: the same on every machine.
SETTINGS = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "COLUMNS": "160", "PYTHONDONTWRITEBYTECODE": "1"}
FAULTY, MENDED = "faulty", "mended"
TWINS = (FAULTY, MENDED)
NAMED, NOTICED, MISSED = "named", "noticed", "missed"
COUNTED = ("failed", "warning")
TIME_LIMIT = 300  # seconds of one twin; on a busy core the slowest takes a fifth of that
# All that need no Hydra application, but for `profile`: it judges times, which other work on the machine changes.
ITEMS = (
    *("fast_dev_run", "device", "limit_batches", "trace", "anomaly", "gradients", "overflow", "memory", "gradcheck"),
    *("overfit", "learning", "reproducibility"),
)
# Each starts a process of its own there; these look at data, config and Trainer.
ITEMS_OF_SCRIPTS = ("fast_dev_run", "config", "limit_batches", "gradients")


@dataclass
class Case:
    """One mistake, as its file describes it."""

    name: str
    module: ModuleType
    source: str = ""
    wrong: str = ""
    named: dict[str, str] = field(default_factory=dict)
    needs: str = ""
    twin: dict[str, str] = field(default_factory=dict)
    alarms: dict[str, str] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=dict)
    items: tuple[str, ...] = ()
    loud: bool = False
    mend: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        default = ITEMS_OF_SCRIPTS if self.folder is not None else ITEMS
        for name in ("source", "wrong", "named", "needs", "twin", "alarms", "trainer", "loud", "mend"):
            setattr(self, name, getattr(self.module, name.upper(), getattr(self, name)))
        self.items = getattr(self.module, "ITEMS", default)

    @property
    def folder(self) -> Path | None:
        """Where its scripts lie, if it has any."""
        path = Path(self.module.__file__).parent
        return path if path.name == self.name else None

    def write(self, twin: str, folder: Path) -> None:
        """Write the script and the config of a twin."""
        for name in ("train.py", "config.yaml"):
            text = (self.folder / name).read_text()
            for found, mended in self.mend.get(name, {}).items() if twin == MENDED else ():
                if text.count(found) != 1:
                    raise ValueError(f"{self.name}: {name} has {found!r} {text.count(found)} times, not once")
                text = text.replace(found, mended)
            (folder / name).write_text(text)


@dataclass
class Run:
    """What the checklist has to say about one twin.

    Args:
        findings: failures and warnings of all items, and each item that has failed itself.
        unexplained: what was printed last, where there is no report.
    """

    findings: list[dict[str, Any]]
    seconds: float
    unexplained: str = ""


@dataclass
class Outcome:
    """What became of one mistake.

    Args:
        by: the rule that names it, or those that notice it.
        said: the finding that names or notices it.
        alarms: findings about the twin.
    """

    case: Case
    status: str
    by: str
    said: str
    seconds: float
    alarms: list[str]


def main() -> int:
    arguments = parse()
    os.environ.update(SETTINGS)
    torch.set_num_threads(1)
    cases = [case for case in found() if not arguments.only or case.name in arguments.only]
    if arguments.check:
        return check(cases)
    with tempfile.TemporaryDirectory(prefix="real-") as scratch:
        return measure(cases, Path(arguments.folder or scratch).resolve(), whole=not arguments.only)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), help="mistakes, by name")
    parser.add_argument("--check", action="store_true", help="only build them and take a step")
    parser.add_argument("--folder", help="keep reports there")
    return parser.parse_args()


def found() -> Iterator[Case]:
    for path in sorted((HERE / "mistakes").iterdir()):
        name = path.stem
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            yield Case(name, importlib.import_module(f"mistakes.{name}"))


def measure(cases: list[Case], folder: Path, whole: bool) -> int:
    started, outcomes = time.monotonic(), []
    for number, case in enumerate(cases, start=1):
        runs = [run(case, twin, folder / f"{case.name}-{twin}") for twin in TWINS]
        outcomes.append(judge(case, *runs))
        print(f"[{number}/{len(cases)}, {time.monotonic() - started:.0f} s] {show(outcomes[-1])}", flush=True)
        if not whole:
            print(*(report(folder / f"{case.name}-{twin}") for twin in TWINS), sep="\n")
    print("", as_table(outcomes), "", *totals(outcomes), sep="\n")
    if whole:
        write_results(HERE / "RESULTS.md", outcomes)
    return 0


def run(case: Case, twin: str, folder: Path) -> Run:
    """Run the checklist on a twin in a process of its own."""
    record = folder / "seconds.json"
    if not record.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        began = time.monotonic()
        (run_script if case.folder is not None else run_module)(case, twin, folder)
        record.write_text(json.dumps(time.monotonic() - began))
    return read(folder)


def run_module(case: Case, twin: str, folder: Path) -> None:
    """Fork, so that the libraries are imported once for all cases."""
    process = multiprocessing.get_context("fork").Process(target=check_parts, args=(case, twin, folder))
    process.start()
    process.join(TIME_LIMIT)
    if process.is_alive():
        process.kill()
        process.join()


def check_parts(case: Case, twin: str, folder: Path) -> None:
    """Run the items on one twin, whose parts are made anew for each: what cannot be built is a finding, too."""
    with (folder / "output.log").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        parts = partial(case.module.parts, twin == MENDED)
        module, datamodule = (partial(lambda index: parts()[index], index) for index in (0, 1))
        training_checklist.check(module, datamodule, list(case.items), trainer=case.trainer, folder=folder / "debug")


def run_script(case: Case, twin: str, folder: Path) -> None:
    """Run the script and its config, as its owner would."""
    case.write(twin, folder)
    only = f"hydra.callbacks.debug.only=[{','.join(case.items)}]"
    command = [sys.executable, "train.py", "+checklist=all", only, "hydra.run.dir=run"]
    with (folder / "output.log").open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=output, stderr=subprocess.STDOUT)
        try:
            process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if (folder / "run" / "debug").is_dir():
        (folder / "run" / "debug").rename(folder / "debug")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *map(str, LIBRARIES)])}


def read(folder: Path) -> Run:
    seconds, path = json.loads((folder / "seconds.json").read_text()), folder / "debug" / "report.json"
    if not path.is_file():
        lines = (folder / "output.log").read_text(errors="replace").strip().splitlines()
        return Run([], seconds, f"no report: {lines[-1] if lines else 'nothing printed'}")
    findings = []
    for item in json.loads(path.read_text())["items"]:
        findings += [finding for finding in item["findings"] if finding["severity"] in COUNTED]
        if item["error"]:
            findings.append({"rule": f"{item['item']} (tool error)", "what": item["error"], "where": ""})
    return Run(findings, seconds)


def report(folder: Path) -> str:
    path = folder / "debug" / "report.md"
    return path.read_text() if path.is_file() else (folder / "output.log").read_text(errors="replace")


def judge(case: Case, faulty: Run, mended: Run) -> Outcome:
    """Say whether the faulty twin's mistake is named: by a rule that the mended twin is silent of."""
    of_both = {finding["rule"] for finding in mended.findings}
    own = [finding for finding in faulty.findings if finding["rule"] not in of_both]
    naming = [finding for finding in own if names(finding, case.named)]
    status = NAMED if naming else NOTICED if own else MISSED
    best = (naming or own)[:1]
    rules = [finding["rule"] for finding in (best if naming else own)]
    wrong = [finding for finding in mended.findings if finding["rule"] not in case.twin]
    alarms = [f"{text(finding)}: {case.alarms.get(finding['rule'], 'not looked into yet')}" for finding in wrong]
    alarms += [mended.unexplained] if mended.unexplained else []
    said = text(best[0]) if best else faulty.unexplained
    return Outcome(case, status, ", ".join(dict.fromkeys(rules)), said, faulty.seconds + mended.seconds, alarms)


def names(finding: dict[str, Any], named: dict[str, str]) -> bool:
    """Whether a finding is of a rule that names the mistake, or of its topic, and has the place in what it says."""
    said = f"{finding['what']}\n{finding['where']}"
    said = re.sub(r"\bmistakes/\w+\.py", "", said)  # a file here is called after its mistake
    return any(
        (finding["rule"] == rule or finding["rule"].startswith(f"{rule}/")) and re.search(place, said)
        for rule, place in named.items()
    )


def text(finding: dict[str, Any]) -> str:
    where = finding["where"].splitlines()[0] if finding["where"] else "no place"
    return f"[{finding['rule']}] {finding['what'].splitlines()[0]} — {where}"


def show(outcome: Outcome) -> str:
    alarms = "".join(f"\n    ALARM on the twin: {alarm[:200]}" for alarm in outcome.alarms)
    return f"{outcome.case.name}: {outcome.status}, {outcome.seconds:.0f} s: {outcome.said[:220]}{alarms}"


def check(cases: list[Case]) -> int:
    """Say which twins cannot be built or take no step, and which mistakes do not raise though they should."""
    wrong = [problem for case in cases for twin in TWINS if (problem := problem_of(case, twin))]
    rules = subprocess.run(
        [sys.executable, "-m", "training_checklist", "rules"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    known = {line.split()[0] for line in rules.stdout.splitlines()} | {"crash"}
    for case in cases:
        wrong += [f"{case.name}: there is no rule {rule}" for rule in case.named if rule not in known]
        if not (case.source and case.wrong and (case.named or case.needs)):
            wrong.append(f"{case.name} lacks SOURCE, WRONG, or both NAMED and NEEDS")
    print(*wrong, f"{len(cases)} mistakes, {len(wrong)} problems", sep="\n")
    return 1 if wrong else 0


def problem_of(case: Case, twin: str) -> str:
    try:
        take_a_step(case, twin)
    except (Exception, SystemExit) as error:
        return "" if case.loud and twin == FAULTY else f"{case.name}, {twin}: {type(error).__name__}: {error}"
    return f"{case.name} is LOUD and raises nothing" if case.loud and twin == FAULTY else ""


def take_a_step(case: Case, twin: str) -> None:
    one_step = {"fast_dev_run": 1, "accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False}
    if case.folder is None:
        module, datamodule = case.module.parts(twin == MENDED)
        trainer = pytorch_lightning.Trainer(**case.trainer | one_step | {"enable_model_summary": False})
        trainer.fit(module, datamodule=datamodule)
        return
    with tempfile.TemporaryDirectory() as folder:
        case.write(twin, Path(folder))
        config = OmegaConf.load(Path(folder, "config.yaml"))
        config.trainer.update(one_step | {"strategy": "auto"})
        specification = importlib.util.spec_from_file_location("train", Path(folder, "train.py"))
        script = sys.modules["train"] = importlib.util.module_from_spec(specification)  # its config names it so
        specification.loader.exec_module(script)
        script.main.__wrapped__(config)  # without Hydra, which would read this command's arguments


if __name__ == "__main__":
    sys.exit(main())
