"""Gives commands what nobody should: files edited by hand, odd environments, impossible places; writes what each said.

python benchmarks/resume/unfriendly.py [WORD ...]

A row is refused in one line and leaves the run as it was, or it runs. With words, rows that have one of them are tried
again and the others stay in UNFRIENDLY.md as they are; with --missing, those that are not there yet.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("UNFRIENDLY.md")
sys.path.insert(0, str(ROOT / "tests"))

from faulty import forked  # noqa: E402
from row_table import cell, chosen, known, table_line  # noqa: E402

SECONDS = 180  # ten times as long as the slowest row takes on two cores
TINY = (
    *("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "logger=csv", "callbacks=[checkpoint,lr_monitor]"),
    *("++trainer.limit_train_batches=2", "++trainer.limit_val_batches=1", "++trainer.limit_test_batches=1"),
)
RUN = "outputs/run"
TRAIN, RESUME = ("train.py", *TINY), ("train.py", f"resume={RUN}", "trainer.max_epochs=2")
EVAL, RERUN = ("eval.py", f"run={RUN}", "accelerator=cpu"), ("train.py", f"rerun={RUN}")


@dataclass
class Row:
    """One command.

    Args:
        what: is unfriendly about it.
        command: a script of the project and its arguments.
        runs: whether it should run.
        prepare: changes the project before, in its folder.
        environment: variables.
        shell: in the place of the command, with SCRIPT for the interpreter.
    """

    what: str
    command: tuple[str, ...]
    runs: bool = False
    prepare: Callable[[Path], object] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    shell: str | None = None


def written(path: str, content: str | bytes) -> Callable[[Path], object]:
    def write(project: Path) -> None:
        file = project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def changed(path: str, old: str, new: str) -> Callable[[Path], object]:
    def change(project: Path) -> None:
        text = (project / path).read_text(encoding="utf-8")
        assert old in text, (path, old)
        (project / path).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def record_with(**values: object) -> Callable[[Path], object]:
    def change(project: Path) -> None:
        path = project / RUN / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")

    return change


def checkpoint_with(name: str, change: Callable[[dict], object]) -> Callable[[Path], object]:
    def edit(project: Path) -> None:
        path = project / RUN / "checkpoints" / name
        content = torch.load(path, weights_only=True)
        content = change(content) or content
        torch.save(content, path)

    return edit


def weights_of(value: Callable[[torch.Tensor], object]) -> Callable[[dict], object]:
    def change(content: dict) -> None:
        content["state_dict"] = {name: value(weight) for name, weight in content["state_dict"].items()}

    return change


def linked(path: str, to: str) -> Callable[[Path], object]:
    def link(project: Path) -> None:
        place = project / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(to)

    return link


CONFIG, OVERRIDES = f"{RUN}/.hydra/config.yaml", f"{RUN}/.hydra/overrides.yaml"
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
READS = {"eval.py": EVAL, "resume=": RESUME, "rerun=": RERUN}


def rows_of_records() -> list[Row]:
    odd = {
        "state is a number": {"state": 5},
        "overrides is text": {"overrides": "seed=1"},
        "overrides has a number": {"overrides": [1]},
        "metrics has text": {"metrics": {"val/accuracy": "good"}},
        "starts is empty": {"starts": []},
        "starts has a number": {"starts": [1]},
        "starts has no time": {"starts": [{"state": "finished"}]},
        "starts is a word": {"starts": "once"},
        "time is a word": {"starts": [{"started": "yesterday"}]},
        "best_checkpoint is a number": {"best_checkpoint": 3},
        "packages is a list": {"packages": ["torch"]},
        "data is a number": {"data": 7},
    }
    rows = [
        Row(f"run.json: {what} ({script})", READS[script], prepare=record_with(**values))
        for number, (what, values) in enumerate(odd.items())
        for script in list(READS)[number % 2 :: 2]
    ]
    texts = {
        "latin-1": '{"state": "größe"}'.encode("latin-1"),
        "UTF-16": '{"state": "finished"}'.encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf{}",
        "null bytes": bytes(100),
        "a number with 5,000 digits": b'{"state": ' + b"9" * 5000 + b"}",
        "nested 100,000 deep": b"[" * 100_000,
    }
    rows += [Row(f"run.json: {what}", EVAL, prepare=written(f"{RUN}/run.json", text)) for what, text in texts.items()]
    return [
        *rows,
        Row(
            "run.json is a folder",
            EVAL,
            prepare=lambda p: ((p / RUN / "run.json").unlink(), (p / RUN / "run.json").mkdir()),
        ),
    ]


def rows_of_saved_configs() -> list[Row]:
    whole = {
        "a tab": "a:\n\tb: 1\n",
        "a key twice": "seed: 1\nseed: 2\n",
        "latin-1": "seed: 1 # größe\n".encode("latin-1"),
        "an alias bomb": BOMB,
        "an alias to itself": "a: &a [*a]\n",
        "two documents": "a: 1\n---\nb: 2\n",
        "a number": "5\n",
        "a tag of Python": "a: !!python/object/apply:os.system [ls]\n",
        "null bytes": bytes(64),
        "nested 20,000 deep": "[" * 20_000,
    }
    rows = [
        Row(f"saved config: {what} ({script})", READS[script], prepare=written(CONFIG, text))
        for number, (what, text) in enumerate(whole.items())
        for script in [list(READS)[number % 3]]
    ]
    edits = {
        "trainer is text": ("trainer:\n  _target_", "trainer: text\nother:\n  _target_"),
        "data is null": ("data:\n  _target_", "data: null\nother:\n  _target_"),
        "optimizer has no _target_": ("_target_: torch.optim.Adam", "target: torch.optim.Adam"),
        "a key leads to itself": ("\nseed: 42", "\nseed: ${seed}"),
        "max_epochs is a list": ("max_epochs: 1", "max_epochs: [1]"),
        "batch_size is a word": ("batch_size: 64", "batch_size: many"),
        "callbacks is a list": ("callbacks:\n", "callbacks: []\nothers:\n"),
        "monitor is gone": ("monitor: val/accuracy\nmode", "mode"),
    }
    # Evaluation has no trainer and optimizer, and a batch size of its own; the command says another max_epochs.
    unread = [(what, "eval.py") for what in ("trainer is text", "batch_size is a word", "optimizer has no _target_")]
    unread.append(("max_epochs is a list", "resume="))
    rows += [
        Row(f"saved config: {what} ({script})", READS[script], (what, script) in unread, changed(CONFIG, *edit))
        for what, edit in edits.items()
        for script in (["resume=", "rerun="] if "callbacks" in what or "monitor" in what else ["resume=", "eval.py"])
        if not (what == "max_epochs is a list" and script == "eval.py")
    ]
    over = {"a mapping": "a: 1\n", "a number": "[1]\n", "null": "null\n", "an alias bomb": BOMB, "latin-1": b"[\xf6]\n"}
    return rows + [
        Row(f"overrides.yaml: {what}", RESUME, prepare=written(OVERRIDES, text)) for what, text in over.items()
    ]


def rows_of_conf() -> list[Row]:
    broken = {
        "a tab": "a:\n\tb: 1\n",
        "a key twice": "lr: 1\nlr: 2\n",
        "latin-1": "lr: 1 # größe\n".encode("latin-1"),
        "an alias bomb": BOMB,
        "no YAML": "a: [1",
        "null bytes": bytes(64),
    }
    rows = []
    for what, text in broken.items():
        unused = written("conf/optimizer/mine.yaml", text)
        rows += [
            Row(f"a file of conf that nobody uses: {what} ({name})", command, True, unused)
            for name, command in READS.items()
        ]
        rows.append(Row(f"a file of conf that is used: {what}", (*TRAIN, "optimizer=mine"), prepare=unused))
    used = {
        "defaults: 5": "defaults: 5\n",
        "defaults: null": "defaults: null\nlr: 0.1\n",
        "defaults with a number": "defaults: [5]\n",
        "defaults that name themselves": "defaults: [mine]\n",
        "a list": "[1, 2]\n",
        "text": "text\n",
        "an unknown package": "# @package a..b\nlr: 1\n",
    }
    runs = ("defaults: null",)
    rows += [
        Row(
            f"conf/optimizer/mine.yaml: {what}",
            (*TRAIN, "optimizer=mine"),
            prepare=written("conf/optimizer/mine.yaml", text),
        )
        for what, text in used.items()
        if what not in runs
    ]

    def circle(project: Path) -> None:
        written("conf/optimizer/a.yaml", "defaults: [b]\n")(project)
        written("conf/optimizer/b.yaml", "defaults: [a]\n")(project)

    rows.append(Row("two options that name each other", (*TRAIN, "optimizer=a"), prepare=circle))
    rows.append(Row("a link in conf that leads nowhere", EVAL, True, linked("conf/optimizer/gone.yaml", "/nowhere")))
    rows.append(Row("a link in conf that leads to itself", EVAL, True, linked("conf/loop", ".")))
    rows.append(
        Row(
            "an experiment that is an alias bomb",
            (*TRAIN, "+experiment=bomb"),
            prepare=written("conf/experiment/bomb.yaml", "# @package _global_\n" + BOMB),
        )
    )
    return rows


def rows_of_checkpoints() -> list[Row]:
    def put(content: dict, *keys: str, value: object) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    nan = weights_of(lambda weight: torch.full_like(weight, float("nan")) if weight.is_floating_point() else weight)
    rows = [
        Row("best.ckpt: weights that are NaN (eval.py)", EVAL, prepare=checkpoint_with("best.ckpt", nan)),
        Row(
            "best.ckpt: weights that are NaN (predict)",
            (*EVAL, "predict=images"),
            prepare=lambda p: (image(p), checkpoint_with("best.ckpt", nan)(p)),
        ),
        Row(
            "best.ckpt: weights of whole numbers",
            EVAL,
            prepare=checkpoint_with("best.ckpt", weights_of(lambda weight: weight.long())),
        ),
        Row(
            "best.ckpt: weights that are numbers",
            EVAL,
            prepare=checkpoint_with("best.ckpt", weights_of(lambda weight: 3)),
        ),
        Row(
            "best.ckpt: complex weights",
            EVAL,
            prepare=checkpoint_with("best.ckpt", weights_of(lambda weight: weight.to(torch.complex64))),
        ),
        Row(
            "best.ckpt: state_dict is a list",
            EVAL,
            prepare=checkpoint_with("best.ckpt", lambda c: put(c, "state_dict", value=[1])),
        ),
        Row(
            "best.ckpt: keys are numbers",
            EVAL,
            prepare=checkpoint_with("best.ckpt", lambda c: put(c, "state_dict", value={1: torch.ones(1)})),
        ),
        Row("best.ckpt: one bit flipped", EVAL, prepare=lambda p: flip(p / RUN / "checkpoints/best.ckpt")),
        Row("last.ckpt: one bit flipped", RESUME, prepare=lambda p: flip(p / RUN / "checkpoints/last.ckpt")),
        Row("last.ckpt: weights that are NaN", RESUME, prepare=checkpoint_with("last.ckpt", nan)),
        Row(
            "last.ckpt: weights of whole numbers",
            RESUME,
            prepare=checkpoint_with("last.ckpt", weights_of(lambda weight: weight.long())),
        ),
        Row("last.ckpt: no loops", RESUME, prepare=checkpoint_with("last.ckpt", lambda c: c.pop("loops") and None)),
        Row(
            "last.ckpt: no callbacks",
            RESUME,
            prepare=checkpoint_with("last.ckpt", lambda c: c.pop("callbacks") and None),
        ),
        Row(
            "last.ckpt: no optimizer",
            RESUME,
            prepare=checkpoint_with("last.ckpt", lambda c: c.pop("optimizer_states") and None),
        ),
        Row("last.ckpt: no epoch", RESUME, prepare=checkpoint_with("last.ckpt", lambda c: c.pop("epoch") * 0 or None)),
        Row(
            "last.ckpt: epoch is text",
            RESUME,
            prepare=checkpoint_with("last.ckpt", lambda c: put(c, "epoch", value="one")),
        ),
        Row(
            "last.ckpt: no random state",
            RESUME,
            prepare=checkpoint_with("last.ckpt", lambda c: put(c, "between_batches", "ranks", value=[])),
        ),
        Row(
            "last.ckpt: between_batches is text",
            RESUME,
            prepare=checkpoint_with("last.ckpt", lambda c: put(c, "between_batches", value="x")),
        ),
        Row(
            "last.ckpt: the best one of another run",
            RESUME,
            prepare=lambda p: shutil.copy(p / RUN / "checkpoints/best.ckpt", p / RUN / "checkpoints/last.ckpt"),
            runs=True,
        ),
        Row(
            "last.ckpt is a folder",
            RESUME,
            prepare=lambda p: (
                (p / RUN / "checkpoints/last.ckpt").unlink(),
                (p / RUN / "checkpoints/last.ckpt").mkdir(),
            ),
        ),
        Row(
            "last.ckpt is a pipe",
            RESUME,
            prepare=lambda p: (
                (p / RUN / "checkpoints/last.ckpt").unlink(),
                os.mkfifo(p / RUN / "checkpoints/last.ckpt"),
            ),
        ),
        Row(
            "last.ckpt is a zip of something else", RESUME, prepare=lambda p: zipped(p / RUN / "checkpoints/last.ckpt")
        ),
        Row("best.ckpt is /dev/zero", EVAL, prepare=linked(f"{RUN}/checkpoints/best.ckpt", "/dev/zero")),
        Row("ckpt= names a folder above", (*EVAL, "ckpt=..")),
    ]
    return rows


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def zipped(path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "text")


def image(project: Path) -> None:
    from PIL import Image

    (project / "images").mkdir(exist_ok=True)
    Image.new("L", (28, 28)).save(project / "images/a.png")


def idx(count: int, labels: bool, size: int = 28) -> bytes:
    head = b"\0\0\x08\x01" if labels else b"\0\0\x08\x03"
    sizes = count.to_bytes(4, "big") + (b"" if labels else size.to_bytes(4, "big") * 2)
    return head + sizes + bytes(count * (1 if labels else size * size))


def mnist(train: int, test: int) -> Callable[[Path], object]:
    def write(project: Path) -> None:
        for part, count in (("train", train), ("t10k", test)):
            written(f"data/{part}-images-idx3-ubyte", idx(count, labels=False))(project)
            written(f"data/{part}-labels-idx1-ubyte", idx(count, labels=True))(project)

    return write


def rows_of_data() -> list[Row]:
    mine = tuple(each for each in TRAIN if each != "data=mnist_sample")
    folder = (
        *mine,
        "data=image_folder",
        "data.folder=images",
        "model=torchvision",
        "data.image_shape=[3,32,32]",
        "data.num_workers=0",
    )
    out = lambda p: (linked("images/a", "/usr")(p), (p / "images/b").mkdir(parents=True, exist_ok=True))  # noqa: E731
    return [
        Row("IDX files with 0 images", (*mine, "data=mnist"), prepare=mnist(0, 0)),
        Row("IDX files with 0 images for testing", (*mine, "data=mnist", "data.val_size=10"), prepare=mnist(100, 0)),
        Row("IDX files with 1 image", (*mine, "data=mnist"), prepare=mnist(1, 1)),
        Row("an image folder with a link to /usr", folder, prepare=out),
        Row("an image folder whose train leads out", folder, prepare=linked("images/train", "/usr")),
        Row(
            "an image folder that leads to itself",
            folder,
            prepare=lambda p: ((p / "images").mkdir(), linked("images/a", ".")(p)),
        ),
        Row("an image folder with an empty class", folder, prepare=lambda p: (p / "images/a").mkdir(parents=True)),
        Row("data_dir is a file", (*mine, "data=mnist", "data_dir=README.md", "data.fallback=null")),
        Row("data.labels is a folder", (*folder, "data.labels=conf"), prepare=image),
        Row("data.labels is not there", (*folder, "data.labels=nowhere.csv"), prepare=image),
        Row(
            "data.labels has null bytes",
            (*folder, "data.labels=a.csv"),
            prepare=lambda p: (image(p), written("a.csv", bytes(50))(p)),
        ),
    ]


def rows_of_places() -> list[Row]:
    long = "x" * 300
    return [
        *(
            Row(f"hydra.run.dir={place or chr(39) * 2}", (*TRAIN, f"hydra.run.dir={place}"))
            for place in ("", ".", "conf", "src", "src/digit_classifier", "examples", "/", "..")
        ),
        Row("hydra.run.dir=${output_dir}", (*TRAIN, "hydra.run.dir=${output_dir}")),
        Row("hydra.run.dir=${nowhere}", (*TRAIN, "hydra.run.dir=${nowhere}")),
        Row("hydra.run.dir of 300 letters", (*TRAIN, f"hydra.run.dir=outputs/{long}")),
        Row("hydra.run.dir=null", (*TRAIN, "hydra.run.dir=null")),
        Row("hydra.run.dir is a file", (*TRAIN, "hydra.run.dir=README.md")),
        Row("hydra.run.dir=/proc/1", (*TRAIN, "hydra.run.dir=/proc/1/x")),
        Row("hydra.run.dir=/dev/null", (*TRAIN, "hydra.run.dir=/dev/null")),
        Row("hydra.sweep.dir=conf", ("train.py", "-m", *TRAIN[1:], "hydra.sweep.dir=conf")),
        Row("callbacks.last_checkpoint.dirpath is a file", (*TRAIN, "callbacks.last_checkpoint.dirpath=README.md")),
        Row("callbacks.checkpoint.dirpath is a file", (*TRAIN, "callbacks.checkpoint.dirpath=README.md")),
        Row("logger.csv.save_dir is a file", (*TRAIN, "logger.csv.save_dir=README.md")),
        Row(
            "callbacks.figures.folder is a file",
            (*TRAIN, "callbacks=[checkpoint,figures]", "callbacks.figures.folder=README.md"),
        ),
        Row("outputs is a file", TRAIN, prepare=lambda p: (shutil.rmtree(p / "outputs"), (p / "outputs").touch())),
        Row("outputs leads to itself", TRAIN, prepare=linked("outputs", "outputs")),
        Row(
            "the run's directory is removed while it trains",
            TRAIN,
            shell="SCRIPT & until ls outputs/train/*/*/csv 2>&1; do :; done; rm -r outputs/train; wait $!",
        ),
        Row(
            "resume= of a run whose directory cannot be written",
            RESUME,
            prepare=lambda p: linked(f"{RUN}/run.json", "/proc/version")(p),
        ),
    ]


def rows_of_values() -> list[Row]:
    singles = {
        "monitor=": False,
        "~data.batch_size": False,
        "~model.net": False,
        "~trainer": False,
        "~callbacks": False,
        "~logger": False,
        "optimizer.lr=0": False,
        "optimizer.lr=1e-400": False,
        "optimizer.lr=1e400": False,
        "+trainer.max_steps=0": False,
        "trainer.accumulate_grad_batches=100000": True,
        "+trainer.min_epochs=9": False,
        "+trainer.min_steps=9 +trainer.max_steps=5": False,
        "+debug=[]": False,
        "--config-dir=nowhere": False,
        "--config-dir=README.md": False,
        "data.mean=[]": False,
        "data.class_names=[]": False,
        "seed=${oc.decode:'['}": False,
        "monitor=${oc.env:HOME}": False,
        "+trainer.max_time=soon": False,
        "+trainer.val_check_interval=2.5": False,
        "trainer.log_every_n_steps=0": False,
        "data.image_shape=[1,28,28,28]": False,
        "data.image_shape=[0,28,28]": False,
        "+callbacks.checkpoint.every_n_train_steps=1": False,
        "callbacks.lr_monitor=null": True,
        "logger.csv=5": False,
        "resume=[a,b]": False,
        "resume=''": False,
        "rerun=5": False,
        "rerun=.": False,
        "allow=5": False,
        "allow=[5]": False,
        "checks=5": False,
        "print_config=yes": False,
        "test=2": False,
        "mode=MAX": False,
        "trainer.precision=": False,
        "+trainer.profiler=nonsense": False,
        "+trainer.plugins.0=5": False,
        "hydra.verbose=[nonsense]": True,
        "hydra.job_logging=null": False,
        "hydra.callbacks=5": False,
        "hydra.output_subdir=../..": False,
        "hydra.job.chdir=true": True,
    }
    return [Row(text, (*TRAIN, *text.split()), runs) for text, runs in singles.items()]


def rows_of_environments() -> list[Row]:
    rank = {
        "TORCHELASTIC_RUN_ID": "x",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    refused = [
        {"MPLBACKEND": "nonsense"},
        {"TORCH_LOGS": "nonsense"},
        {"WORLD_SIZE": "0"},
        {"LOCAL_WORLD_SIZE": "0"},
        rank | {"RANK": "5"},
        rank | {"WORLD_SIZE": "0"},
        rank | {"LOCAL_WORLD_SIZE": "0"},
        {"SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "abc"},
        {"SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "1", "SLURM_PROCID": "7"},
        {"MASTER_PORT": "http"},
        {"RANK": "٣"},
    ]
    runs = [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"COLUMNS": "1"},
        {"COLUMNS": "abc"},
        {"TERM": "nonsense", "FORCE_COLOR": "1"},
        {"TZ": "Nowhere/Else"},
        {"HOME": "/nowhere"},
        {"TMPDIR": "/nowhere"},
        {"CUDA_VISIBLE_DEVICES": "nonsense"},
        {"OMP_NUM_THREADS": "abc"},
        {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    ]
    say = lambda variables: " ".join(f"{name}={value}" for name, value in variables.items())  # noqa: E731
    rows = [Row(say(variables), TRAIN, False, environment=variables) for variables in refused]
    rows += [Row(say(variables), TRAIN, True, environment=variables) for variables in runs]
    callbacks = "'callbacks=[checkpoint,model_summary,epoch_lines]'"
    return [
        *rows,
        Row("nobody reads: | head -1", TRAIN, True, shell=f"SCRIPT {callbacks} | head -1; exit ${{PIPESTATUS[0]}}"),
        Row("nobody reads: | head -1 (eval.py)", EVAL, True, shell="SCRIPT | head -1; exit ${PIPESTATUS[0]}"),
        Row("standard output is full", TRAIN, True, shell="SCRIPT > /dev/full"),
        Row("standard output is closed", TRAIN, True, shell="SCRIPT >&-"),
        Row("standard error is closed", TRAIN, True, shell="SCRIPT 2>&-"),
        Row("standard input is closed", TRAIN, True, shell="SCRIPT <&-"),
        Row("--help | head -1", ("train.py", "--help"), True, shell="SCRIPT | head -1; exit ${PIPESTATUS[0]}"),
        Row("16 open files", TRAIN, True, shell="ulimit -n 16; SCRIPT"),
    ]


def rows() -> list[Row]:
    kinds = (rows_of_environments, rows_of_values, rows_of_places, rows_of_data, rows_of_checkpoints, rows_of_conf)
    return [row for kind in (*kinds, rows_of_saved_configs, rows_of_records) for row in kind()]


class Bench:
    """A generated project with a finished run, of which each row gets a copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", folder / "made", ROOT]
        subprocess.run(command, check=True, capture_output=True)
        [self.project] = (folder / "made").iterdir()
        for name in ("wheels", "docs", ".git", "locks"):
            shutil.rmtree(self.project / name, ignore_errors=True)
        code, said, _ = self.run(Row("", (*TRAIN, f"hydra.run.dir={RUN}")), self.project)
        assert code == 0, said

    def environment(self, project: Path, row: Row) -> dict[str, str]:
        libraries = sorted(ROOT.glob("packages/*/src"))
        paths = os.pathsep.join(map(str, (project / "src", project, *libraries)))
        known = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON"))}
        own = {"PYTHONPATH": paths, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
        return known | own | nowhere | row.environment

    def run(self, row: Row, project: Path) -> tuple[int | None, str, str]:
        """Return the exit code, None after `SECONDS`, and what it said."""
        environment, output = self.environment(project, row), project.parent / f"{project.name}.said"
        if row.shell is None and not row.environment:
            process = forked.start([*row.command], project, environment, output, output, sys.executable)
        else:
            quoted = " ".join(f"'{word}'" for word in (sys.executable, *row.command))
            command = ["bash", "-c", (row.shell or "SCRIPT").replace("SCRIPT", quoted)]
            with output.open("wb") as file:
                process = subprocess.Popen(
                    command, cwd=project, env=environment, stdout=file, stderr=file, start_new_session=True
                )
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, 9)
            forked.end_servers()  # the one that waits for it
        return code, output.read_text(encoding="utf-8", errors="replace"), ""

    def judge(self, row: Row, number: int) -> tuple[str, str]:
        """Return what became of a row, and the line that it ended with."""
        project = self.folder / str(number)
        shutil.copytree(self.project, project, symlinks=True)
        if row.prepare is not None:
            row.prepare(project)
        before = content(project / RUN)
        code, said, _ = self.run(row, project)
        after = content(project / RUN)
        shutil.rmtree(project, ignore_errors=True)
        lines = [line for line in said.splitlines() if line.strip()]
        last = (lines or [""])[-1].replace(str(project), "PROJECT").replace(str(self.folder), "")
        last = last.replace(str(Path.home()), "HOME")
        if code is None:
            return "HANGS", last
        if "Traceback" in said or code not in (0, 1):
            return "TRACEBACK" if "Traceback" in said else f"EXIT CODE {code}", last
        if row.runs != (code == 0):
            return "REFUSED" if row.runs else "ACCEPTED", last
        if code == 1 and before != after:
            return "CHANGED THE RUN", last
        if code == 1 and not last:
            return "SILENT", last
        return ("runs" if code == 0 else "one line"), "" if code == 0 else last


def content(run: Path) -> dict[str, bytes]:
    files = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(run)): path.read_bytes() for path in files if not path.name.startswith(".lock")}


def write(lines: dict[str, str]) -> int:
    """Write what became of all rows that are known; return how many have no clear end."""
    found = [lines[cell(row.what)] for row in rows() if cell(row.what) in lines]
    bad = sum(" | runs | " not in line and " | one line | " not in line for line in found)
    head = [
        "# Unfriendly inputs",
        "",
        f"`python benchmarks/resume/unfriendly.py`: {len(found)} inputs, {bad} without a clear end. A clear one is "
        "a run where the input leaves one, or",
        "one line with exit code 1 and no byte of the finished run changed.",
        "",
        "| input | what became of it | last line |",
        "| --- | --- | --- |",
    ]
    RESULTS.write_text("\n".join([*head, *found]) + "\n", encoding="utf-8")
    return bad


def main(words: list[str]) -> int:
    lines = known(RESULTS) if words else {}
    asked = chosen([row.what for row in rows()], words, lines)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch))
        for number, row in enumerate(row for row in rows() if row.what in asked):
            verdict, last = bench.judge(row, number)
            lines[cell(row.what)] = table_line(row.what, verdict, last)
            bad = write(lines)
            if verdict != verdict.lower():
                print(lines[cell(row.what)], flush=True)
    forked.end_servers()
    print(f"{len(lines)} inputs, {bad} without a clear end")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
