"""What a user sees who asks for something that cannot be: one line with key, value and fix, exit code 1, no rubbish.

Run by tests/test_bad_input.py inside a generated project, in one process with that project's fixtures, because a
process a row would take minutes, and the project's own tests may not.

A row is the arguments, the line, and what may be left on disk. FOLDER stands for the working directory.
"""

import gzip
import os
import shutil
import zlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import digit_classifier.data
import pytest
import torch
from PIL import Image
from training_runs.records.runs import read_record

# What is left: nothing; a record that says "failed", with the line.
NOTHING, RECORD = [], [".hydra", "report.html", "run.json", "train.log"]

SEED = "must be a whole number from 0 to 4294967295 or null"
DEVICES = "must be auto, a whole number of at least 1, or a list of numbers such as [0,1]"
SHARE = "must be a whole number of batches, or a share from 0.0 to 1.0"
REFUSED = "is refused: what a config builds must not run or delete what it likes"
PRECISIONS = (
    "64, 32, 16, transformer-engine, transformer-engine-float16, 16-true, 16-mixed, bf16-true, "
    "bf16-mixed, 32-true, 64-true, bf16 or null"
)

TRAIN = [
    # Names that are not there, with the nearest that are.
    (
        "optimizer.lrr=0.1",
        "optimizer.lrr is no key of train.yaml; did you mean optimizer.lr or optimizer or model.optimizer?",
        NOTHING,
    ),
    (
        "optimiser=sgd",
        "optimiser is no key of train.yaml; did you mean optimizer or optimizer.lr or model.optimizer?",
        NOTHING,
    ),
    (
        "scheduler=cosine scheduler.intervall=step",
        "scheduler.intervall is no key of train.yaml; "
        "did you mean scheduler.interval or scheduler or scheduler.scheduler?",
        NOTHING,
    ),
    ("~tests", "tests is no key of train.yaml; did you mean test?", NOTHING),
    ("model=cn", "model=cn is no option of conf/model; did you mean cnn?", NOTHING),
    ("optimizer=adma", "optimizer=adma is no option of conf/optimizer; did you mean adam or adamw?", NOTHING),
    ("logger=tensorbord", "logger=tensorbord is no option of conf/logger; did you mean tensorboard?", NOTHING),
    ("callbacks=[chekpoint]", "callbacks=chekpoint is no option of conf/callbacks; did you mean checkpoint?", NOTHING),
    ("+experiment=baselin", "experiment=baselin is no option of conf/experiment; did you mean baseline?", NOTHING),
    ("+debug=overfitt", "debug=overfitt is no option of conf/debug; did you mean overfit or overflow?", NOTHING),
    ("--config-name=trian", "conf has no trian.yaml; did you mean train?", NOTHING),
    (
        "+trainer.max_epoch=3",
        "trainer.max_epoch is not an argument of pytorch_lightning.Trainer; "
        "did you mean max_epochs or min_epochs or max_steps?",
        NOTHING,
    ),
    (
        "model.net._target_=torch.nn.Linaer",
        "model.net._target_=torch.nn.Linaer cannot be imported: torch.nn has no 'Linaer'; "
        "did you mean Linear or LazyLinear?",
        NOTHING,
    ),
    (
        "optimizer._target_=tortch.optim.SGD",
        "optimizer._target_=tortch.optim.SGD cannot be imported: there is no module 'tortch'; is it installed?",
        NOTHING,
    ),
    (
        "+trainer.strategy=dpp",
        "trainer.strategy=dpp is no strategy of Lightning; did you mean ddp?",
        NOTHING,
    ),
    # What does not parse, or does not resolve.
    ("seed", """seed is no override; write seed=value, and quote what is not plain: "seed='...'\"""", NOTHING),
    (
        "optimizer.lr=[0.1",
        """optimizer.lr=[0.1 is no override; write optimizer.lr=value, and quote what is not plain: """
        """"optimizer.lr='...'\"""",
        NOTHING,
    ),
    (
        "größe=1",
        """größe=1 is no override; write größe=value, and quote what is not plain: "größe='...'\"""",
        NOTHING,
    ),
    ("+seed=3", "seed is in train.yaml already; write seed=3 without the +", NOTHING),
    (
        "optimizer=null",
        "optimizer=null: a group cannot be null; choose an option of conf/optimizer, or none with optimizer=[]",
        NOTHING,
    ),
    ("~optimizer", "model.optimizer=${optimizer} does not resolve: Interpolation key 'optimizer' not found", NOTHING),
    ("+optimzer=sgd", "optimzer=sgd adds a key that nothing uses; did you mean optimizer?", NOTHING),
    ("+optimiser.lr=0.1", "optimiser.lr=0.1 adds a key that nothing uses; did you mean optimizer?", NOTHING),
    ("lr=0.1", "lr is no key of train.yaml; did you mean optimizer.lr?", NOTHING),
    ("seed=???", "seed=??? must be given a value: add seed=... to the command", NOTHING),
    (
        "optimizer.lr=${nowhere}",
        "optimizer.lr=${nowhere} does not resolve: Interpolation key 'nowhere' not found",
        NOTHING,
    ),
    (
        "monitor=${oc.env:NO_SUCH_VARIABLE}",
        "monitor=${oc.env:NO_SUCH_VARIABLE} does not resolve: KeyError raised while resolving interpolation: "
        "\"Environment variable 'NO_SUCH_VARIABLE' not found\"",
        NOTHING,
    ),
    ("seed=${dice:6}", "seed=${dice:6} does not resolve: Unsupported interpolation type dice", NOTHING),
    # Wrong types and values out of range.
    ("seed=abc", f"seed=abc {SEED}", NOTHING),
    ("seed=-1", f"seed=-1 {SEED}", NOTHING),
    ("seed=1.5", f"seed=1.5 {SEED}", NOTHING),
    ("seed=4294967296", f"seed=4294967296 {SEED}", NOTHING),
    ("mode=maximum", "mode=maximum must be min or max", NOTHING),
    ("test=perhaps", "test=perhaps must be true or false", NOTHING),
    ("data.batch_size=abc", "data.batch_size=abc must be a whole number of at least 1", NOTHING),
    ("data.batch_size=2.5", "data.batch_size=2.5 must be a whole number of at least 1", NOTHING),
    ("data.batch_size=null", "data.batch_size=null must be a whole number of at least 1", NOTHING),
    ("data.batch_size=true", "data.batch_size=True must be a whole number of at least 1", NOTHING),
    ("data.batch_size=0", "data.batch_size=0 must be a whole number of at least 1", NOTHING),
    ("data.num_workers=-1", "data.num_workers=-1 must be a whole number of at least 0", NOTHING),
    ("data.std=[0]", "data.std=[0] must be a list, each in it a number greater than 0", NOTHING),
    ("data.mean=[nan]", "data.mean=[nan] must be a list, each in it a finite number", NOTHING),
    ("optimizer.lr=inf", "optimizer.lr=inf must be a finite number greater than 0", NOTHING),
    (
        "model=mlp model.net.hidden_sizes=[0]",
        "model.net.hidden_sizes=[0] must be a list, each in it a whole number of at least 1",
        NOTHING,
    ),
    (
        "data.class_names=[a,a,a,a,a,a,a,a,a,a]",
        "data.class_names=['a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a'] must be different names: tables tell "
        "classes by them",
        RECORD,
    ),
    ("monitor=null", "monitor=null must be the name of a metric, such as val/loss", NOTHING),
    ("seed=${seed}", "seed=${seed} does not resolve: Recursive interpolation detected", NOTHING),
    ("data=5", "data=5: a group cannot be 5; choose an option of conf/data, or none with data=[]", NOTHING),
    (
        "data.mean=[0,0]",
        "data.mean=[0, 0] and data.std=[0.3081] must have a value for each channel of data.image_shape=[1, 28, 28]",
        RECORD,
    ),
    ("data.image_shape=[28,28]", "data.image_shape=[28, 28] must be [channels, height, width]", NOTHING),
    (
        "data.image_shape=[1,32,32]",
        "data.image_shape=[1, 32, 32] but the images of mnist_sample are [1, 28, 28]",
        RECORD,
    ),
    (
        "data.val_size=4000",
        "data.val_size=4000 must lie between 1 and 3999: mnist_sample has 4000 training images",
        RECORD,
    ),
    ("data.val_size=0", "data.val_size=0 must be a whole number of at least 1", NOTHING),
    ("data.num_classes=5", "data.class_names has 10 names but data.num_classes=5", RECORD),
    ("model.net=null", "model.net=null must be Module, as a node with a _target_", NOTHING),
    ("model.init=xavier", "model.init='xavier' must be one of pytorch, kaiming_normal", RECORD),
    (
        "model.compile=fast",
        "model.compile=fast must be true, false or one of default, reduce-overhead, max-autotune, "
        "max-autotune-no-cudagraphs",
        RECORD,
    ),
    ("model.net.dropout=2", "model.net.dropout=2 must be a number from 0 to 1", NOTHING),
    ("model.net.dropout=abc", "model.net.dropout=abc must be a number from 0 to 1", NOTHING),
    (
        "optimizer.lr=abc",
        "optimizer.lr=abc must be a number greater than 0",
        NOTHING,
    ),
    ("optimizer.lr=-1", "optimizer.lr=-1 must be a number greater than 0", NOTHING),
    ("optimizer.lr=nan", "optimizer.lr=nan must be a finite number greater than 0", NOTHING),
    ("+criterion.label_smoothing=2", "criterion.label_smoothing=2 must be a number from 0 to 1", NOTHING),
    (
        "+criterion.reduction=none",
        "criterion.reduction=none must be mean or sum: training needs one number",
        NOTHING,
    ),
    ("scheduler=cosine scheduler.interval=epochs", "scheduler.interval=epochs must be step or epoch", NOTHING),
    (
        "scheduler=cosine scheduler.scheduler.warmup_fraction=3",
        "scheduler.scheduler.warmup_fraction=3 must lie in [0, 1)",
        NOTHING,
    ),
    ("trainer.max_epochs=abc", "trainer.max_epochs=abc must be -1, a whole number of at least 1 or null", NOTHING),
    ("trainer.max_epochs=-5", "trainer.max_epochs=-5 must be -1, a whole number of at least 1 or null", NOTHING),
    (
        "trainer.accumulate_grad_batches=0",
        "trainer.accumulate_grad_batches=0 must be a whole number of at least 1",
        NOTHING,
    ),
    ("trainer.gradient_clip_val=-1", "trainer.gradient_clip_val=-1 must be a number of at least 0 or null", NOTHING),
    ("++trainer.limit_val_batches=1.5", f"trainer.limit_val_batches=1.5 {SHARE}", NOTHING),
    ("trainer.precision=half", f"trainer.precision=half must be {PRECISIONS}", NOTHING),
    ("trainer.devices=0", f"trainer.devices=0 {DEVICES}", NOTHING),
    ("trainer.devices=abc", f"trainer.devices=abc {DEVICES}", NOTHING),
    (
        "callbacks.checkpoint.save_top_k=-2",
        "callbacks.checkpoint.save_top_k=-2 must be a whole number, -1 for all",
        NOTHING,
    ),
    # What trains nothing.
    ("optimizer.lr=0", "optimizer.lr=0 must be a number greater than 0", NOTHING),
    ("optimizer.lr=1e-400", "optimizer.lr=0.0 must be a number greater than 0", NOTHING),
    ("+trainer.max_steps=0", "trainer.max_steps=0 must be -1 or a whole number of at least 1", NOTHING),
    ("trainer.max_epochs=0", "trainer.max_epochs=0 must be -1, a whole number of at least 1 or null", NOTHING),
    (
        "+trainer.min_epochs=5 trainer.max_epochs=2",
        "trainer.min_epochs=5 is more than trainer.max_epochs=2; raise the one or lower the other",
        NOTHING,
    ),
    ("monitor=", "monitor= must be the name of a metric, such as val/loss", NOTHING),
    ("+debug=[]", "+debug=[]: a group cannot be []; choose an option of conf/debug, or leave it out", NOTHING),
    ("--config-dir=nowhere", "--config-dir=nowhere is no folder; name one with configs", NOTHING),
    ("--config-dir nowhere", "--config-dir=nowhere is no folder; name one with configs", NOTHING),
    # Parts that do not go together, with each other or with this machine.
    (
        "trainer.precision=16-mixed",
        "trainer.precision=16-mixed needs a GPU; on the CPU use trainer.precision=bf16-mixed or 32-true",
        NOTHING,
    ),
    (
        "trainer.accelerator=cuda:0",
        "trainer.accelerator=cuda:0 is no accelerator of Lightning; use one of auto, cpu, cuda, gpu, mps, tpu",
        NOTHING,
    ),
    (
        "trainer.accelerator=tpu",
        "trainer.accelerator=tpu but PyTorch sees none on this machine; use cpu or auto",
        NOTHING,
    ),
    (
        "+trainer.sync_batchnorm=true",
        "trainer.sync_batchnorm=true needs GPUs; on the CPU use trainer.sync_batchnorm=false",
        NOTHING,
    ),
    (
        "trainer.num_nodes=2",
        "trainer.num_nodes=2 needs a launcher on every node: start this command with srun, or with torchrun --nnodes 2 "
        "--nproc-per-node <devices> on each",
        NOTHING,
    ),
    (
        "model.net.num_classes=3",
        "model.net.num_classes=3 but data.num_classes=10; they must be the same",
        NOTHING,
    ),
    (
        "monitor=val/acc",
        "monitor=val/acc names a metric that is not logged; validation logs val/accuracy, val/loss; "
        "did you mean val/accuracy?",
        [".hydra", "csv", "report.html", "run.json", "train.log"],
    ),
    (
        "hydra.run.dir=null",
        "Error merging override hydra.run.dir=null: field 'hydra.run.dir' is not Optional",
        NOTHING,
    ),
    (
        "scheduler=plateau scheduler.monitor=null",
        "scheduler.monitor=null but ReduceLROnPlateau watches a metric: say scheduler.monitor=val/loss or another",
        NOTHING,
    ),
    (
        "+callbacks.added=3",
        "callbacks.added=3 has no _target_; name a class with callbacks.added._target_=..., or null",
        NOTHING,
    ),
    (
        "+logger.added._target_=torch.utils.tensorboard.SummaryWriter",
        "logger.added._target_=torch.utils.tensorboard.SummaryWriter must be a Logger of pytorch_lightning",
        NOTHING,
    ),
    (
        "+callbacks.added._target_=torch.nn.Identity",
        "callbacks.added._target_=torch.nn.Identity must be a Callback of pytorch_lightning",
        NOTHING,
    ),
    (
        "optimizer._partial_=false",
        "optimizer lacks params of torch.optim.Adam; add optimizer._partial_=true: the model supplies it",
        NOTHING,
    ),
    # What must not be called.
    ("model._target_=os.system", f"model._target_=os.system {REFUSED}", NOTHING),
    ("+callbacks.added._target_=builtins.eval", f"callbacks.added._target_=builtins.eval {REFUSED}", NOTHING),
    ("+callbacks.added._target_=shutil.rmtree", f"callbacks.added._target_=shutil.rmtree {REFUSED}", NOTHING),
    # Places that cannot be written to.
    (
        "hydra.run.dir=FOLDER/file/run",
        "hydra.run.dir=FOLDER/file/run cannot be written to (Not a directory); choose another directory with "
        "hydra.run.dir=...",
        NOTHING,
    ),
    (
        "hydra.mode=MULTIRUN hydra.sweep.dir=FOLDER/file/sweep",
        "hydra.sweep.dir=FOLDER/file/sweep cannot be written to (Not a directory); choose another directory with "
        "hydra.sweep.dir=...",
        NOTHING,
    ),
    (
        "hydra.run.dir=s3://bucket/run",
        "hydra.run.dir=s3://bucket/run is an address; name a directory, of a mounted store too, and copy the run when "
        "it ends",
        NOTHING,
    ),
    (
        "callbacks.checkpoint.dirpath=s3://bucket/run",
        "callbacks.checkpoint.dirpath=s3://bucket/run must be a directory (a mounted store's too, no address) or null",
        NOTHING,
    ),
    (
        "output_dir=FOLDER/file",
        "output_dir=FOLDER/file is no directory to write to; leave it, and say hydra.run.dir=... to place a run",
        NOTHING,
    ),
    (
        "callbacks.checkpoint.filename=../../x",
        "callbacks.checkpoint.filename=../../x leads out of its directory; use a name without / and ..",
        NOTHING,
    ),
    (
        "logger.csv.name=../x",
        "logger.csv.name=../x leads out of its directory; use a name without / and ..",
        NOTHING,
    ),
    (
        "callbacks.last_checkpoint.dirpath=FOLDER/file",
        "callbacks.last_checkpoint.dirpath=FOLDER/file is no directory to write to, since FOLDER/file is none; name "
        "another",
        NOTHING,
    ),
    (
        "logger.csv.save_dir=FOLDER/file/below",
        "logger.csv.save_dir=FOLDER/file/below is no directory to write to, since FOLDER/file is none; name another",
        NOTHING,
    ),
    (
        "hydra.output_subdir=../..",
        "hydra.output_subdir=../.. leads out of the run's directory; use a name, or leave it out",
        NOTHING,
    ),
    (
        "hydra.run.dir=",
        "hydra.run.dir= is where code or configs lie, which a run's files would be mixed with; choose another "
        "directory with hydra.run.dir=..., such as outputs/mine",
        NOTHING,
    ),
    (
        "hydra.run.dir=/",
        "hydra.run.dir=/ is where code or configs lie, which a run's files would be mixed with; choose another "
        "directory with hydra.run.dir=..., such as outputs/mine",
        NOTHING,
    ),
    # Data.
    ("data=mnist data.dataset=MNST", "data.dataset=MNST must be MNIST, FashionMNIST or KMNIST", RECORD),
    (
        "data=mnist data.fallback=null",
        "MNIST is not in FOLDER/data and cannot be downloaded (no answer from "
        "https://ossci-datasets.s3.amazonaws.com/mnist/ within 5 s); put its four IDX files into "
        "FOLDER/data/MNIST/raw, or set data=mnist_sample",
        RECORD,
    ),
    ("data=mnist data.fallback=sample", "data.fallback='sample' must be mnist_sample or null", RECORD),
    (
        "data=fashion_mnist",
        "FashionMNIST is not in FOLDER/data and cannot be downloaded (no answer from "
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/ within 5 s); put its four IDX files into "
        "FOLDER/data/FashionMNIST/raw, or set data=mnist_sample",
        RECORD,
    ),
]


@pytest.fixture
def refused(told, tmp_path):
    """`refused(script)`: the lines that a command is refused with, without the name of the folder."""
    return lambda script: told(script).replace(str(tmp_path), "FOLDER").splitlines()


def left(folder: Path) -> list[str]:
    """What holds a file in the directory of the run; no directory is left without one."""
    paths = [path for path in folder.glob("outputs/**/*") if not path.is_dir()]
    assert paths or not (folder / "outputs").exists()
    return sorted({path.relative_to(folder).parts[4] for path in paths})


@pytest.mark.parametrize(("arguments", "line", "rest"), TRAIN, ids=[arguments for arguments, _, _ in TRAIN])
def test_train_says_what_is_wrong_in_one_line(refused, script, tmp_path, arguments, line, rest):
    (tmp_path / "file").touch()
    small = ["data=mnist_sample", "trainer=cpu", "logger=csv", "callbacks=[checkpoint]"]
    told = refused(lambda: script("train.py", *small, *arguments.replace("FOLDER", str(tmp_path)).split()))
    assert line in told
    assert left(tmp_path) == rest
    for record in tmp_path.glob("outputs/*/*/*/run.json"):
        assert read_record(record.parent)["state"] == "failed"
        assert line.replace("FOLDER", str(tmp_path)) in read_record(record.parent)["error"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:500])


def replace(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(gzip.compress(content))


AGAIN = "delete it and run again to download it anew"
IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"

DATA = [
    (
        IMAGES,
        cut,
        f"FOLDER/{IMAGES} cannot be read (Compressed file ended before the end-of-stream marker was reached); {AGAIN}",
    ),
    (
        IMAGES,
        lambda path: path.write_bytes(b"<html>404</html>"),
        f"FOLDER/{IMAGES} cannot be read (Not a gzipped file (b'<h')); {AGAIN}",
    ),
    (IMAGES, lambda path: path.write_bytes(b""), f"FOLDER/{IMAGES} is not an IDX file of bytes; {AGAIN}"),
    (IMAGES, replace(b"\x89PNG and so on"), f"FOLDER/{IMAGES} is not an IDX file of bytes; {AGAIN}"),
    (IMAGES, replace(b"\0\0\x08\x03\0\0"), f"FOLDER/{IMAGES} ends within its header; {AGAIN}"),
    (
        IMAGES,
        replace(b"\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c" + bytes(784)),
        f"FOLDER/{IMAGES} holds 784 bytes of data but its header announces 1,568 (2, 28, 28); {AGAIN}",
    ),
    (
        LABELS,
        replace(b"\0\0\x08\x01\0\0\0\x02\x03\x04"),
        "FOLDER: train images of shape (4000, 28, 28) do not belong to labels of shape (2,); delete both files and run "
        "again to download them anew",
    ),
    (
        LABELS,
        replace(b"\0\0\x08\x01\0\0\x0f\xa0" + bytes(3999) + b"\x0b"),
        "data.num_classes=10 but MNIST has labels from 0 to 11",
    ),
]


@pytest.mark.parametrize(("name", "damage", "line"), DATA, ids=range(len(DATA)))
def test_damaged_data_is_named_and_not_trained_on(refused, script, tmp_path, name, damage, line):
    for path in Path(str(files(digit_classifier.data) / "sample")).glob("*.gz"):
        shutil.copy(path, tmp_path)
    damage(tmp_path / name)
    small = ["data=mnist", f"data_dir='{tmp_path}'", "trainer=cpu", "logger=csv", "callbacks=[checkpoint]"]
    assert line in refused(lambda: script("train.py", *small))
    assert left(tmp_path) == RECORD


class RunsCode:
    """Leaves a file behind where somebody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def run_of(tiny, tmp_path):
    """A copy of a tiny run, to be broken."""
    return shutil.copytree(tiny, tmp_path / "run")


CHOICES = "use ckpt=best or ckpt=last of a run"
HAS = "FOLDER/run/checkpoints has best.ckpt, last.ckpt"

EVAL = [
    ("rnu=last", "rnu is no key of eval.yaml; did you mean run?"),
    ("run=nowhere", "run=nowhere is not the directory of a run: it has no run.json; try run=last"),
    ("run=null", "run=null names no run; try run=last, or run=<directory>"),
    ("run=last", "run=last: no run in outputs/ or multirun/ has a checkpoint yet; start one with python train.py"),
    ("summary=nowhere", "summary=nowhere is not the directory of a sweep: it has no job 0; try summary=last"),
    ("ckpt=null", "ckpt=null names no checkpoint; use ckpt=best, ckpt=last, or ckpt=<file>"),
    ("ckpt=nowhere.ckpt", f"ckpt=nowhere.ckpt: there is no file nowhere.ckpt; {HAS}"),
    ("ckpt=FOLDER/run", f"ckpt=FOLDER/run: there is no file FOLDER/run; {HAS}"),
    ("ckpt=FOLDER/empty.ckpt", f"ckpt=FOLDER/empty.ckpt is refused: it is damaged or of another kind; {CHOICES}"),
    ("ckpt=FOLDER/text.ckpt", f"ckpt=FOLDER/text.ckpt is refused: it is damaged or of another kind; {CHOICES}"),
    ("ckpt=FOLDER/half.ckpt", f"ckpt=FOLDER/half.ckpt is refused: it is damaged or of another kind; {CHOICES}"),
    ("ckpt=FOLDER/list.ckpt", f"ckpt=FOLDER/list.ckpt is refused: it holds no state_dict; {CHOICES}"),
    (
        "ckpt=FOLDER/code.ckpt",
        f"ckpt=FOLDER/code.ckpt is refused: to load posix.mkdir could run code; {CHOICES}",
    ),
    (
        "ckpt=FOLDER/other.ckpt",
        "ckpt=FOLDER/other.ckpt belongs to another network: net.head.weight is not there in it and (10, 576) in the "
        "run's own; use ckpt=best or ckpt=last, or name the checkpoint's run with run=...",
    ),
    (
        "ckpt=FOLDER/nan.ckpt",
        "ckpt=FOLDER/nan.ckpt is refused: net.head.bias in it is NaN: training diverged; use one from before",
    ),
    (
        "ckpt=FOLDER/whole.ckpt",
        "ckpt=FOLDER/whole.ckpt belongs to another network: net.head.bias is (10,) of torch.int64 in it and (10,) in "
        "the run's own; use ckpt=best or ckpt=last, or name the checkpoint's run with run=...",
    ),
    ("ckpt=FOLDER/numbers.ckpt", f"ckpt=FOLDER/numbers.ckpt is refused: it holds no state_dict; {CHOICES}"),
    ("ckpt=FOLDER/...ckpt", "ckpt=FOLDER/...ckpt has no name to keep its results under; give the file another"),
    ("batch_size=0", "batch_size=0 must be a whole number of at least 1"),
    ("batch_size=abc", "batch_size=abc must be a whole number of at least 1"),
    ("worst=-1", "worst=-1 must be a whole number of at least 0"),
    ("accelerator=tpu", "accelerator=tpu but PyTorch sees none on this machine; use cpu or auto"),
    (
        "accelerator=graphics",
        "accelerator=graphics is no accelerator of Lightning; use one of auto, cpu, cuda, gpu, mps, tpu",
    ),
    (
        "predict=nowhere",
        "predict=nowhere is no file and no folder; "
        "name one with images (.bmp, .gif, .jpeg, .jpg, .png, .tif, .tiff, .webp)",
    ),
    (
        "predict=text",
        "text/a.png is not a readable image (cannot identify image file 'a.png'); remove it",
    ),
    ("predict=cut", "cut/a.png is not a readable image (image file is truncated); remove it"),
    (
        "predict=huge",
        "huge/a.png is not a readable image (Image size (400000000 pixels) exceeds limit of 178956970 pixels, "
        "could be decompression bomb DOS attack.); remove it",
    ),
    (
        "predict=nothing",
        "predict=nothing holds nothing to predict for; "
        "put images (.bmp, .gif, .jpeg, .jpg, .png, .tif, .tiff, .webp) there",
    ),
]


@pytest.fixture
def rubbish(run_of, tmp_path):
    """Everything that the rows of `EVAL` name."""
    for name, content in (("empty.ckpt", b""), ("text.ckpt", b"hello")):
        (tmp_path / name).write_bytes(content)
    whole = (run_of / "checkpoints/best.ckpt").read_bytes()
    (tmp_path / "half.ckpt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "...ckpt").write_bytes(whole)
    torch.save([1], tmp_path / "list.ckpt")
    torch.save({"state_dict": RunsCode(tmp_path / "ran")}, tmp_path / "code.ckpt")
    weights = torch.load(run_of / "checkpoints/best.ckpt", weights_only=True)["state_dict"]
    bias = weights["net.head.bias"]
    for name, value in (("nan", bias * float("nan")), ("whole", bias.long()), ("numbers", 3)):
        torch.save({"state_dict": weights | {"net.head.bias": value}}, tmp_path / f"{name}.ckpt")
    del weights["net.head.weight"]
    torch.save({"state_dict": weights}, tmp_path / "other.ckpt")
    for name in ("text", "cut", "huge", "nothing"):
        (tmp_path / name).mkdir()
    (tmp_path / "text/a.png").write_text("no picture", encoding="utf-8")
    Image.new("L", (200, 200)).save(tmp_path / "cut/a.png")
    (tmp_path / "cut/a.png").write_bytes((tmp_path / "cut/a.png").read_bytes()[:60])
    Image.new("1", (1, 1)).save(tmp_path / "huge/a.png")
    huge = bytearray((tmp_path / "huge/a.png").read_bytes())
    huge[16:24] = (20000).to_bytes(4, "big") * 2  # width and height in a PNG's header
    huge[29:33] = zlib.crc32(huge[12:29]).to_bytes(4, "big")
    (tmp_path / "huge/a.png").write_bytes(huge)


@pytest.mark.parametrize(("argument", "line"), EVAL, ids=[argument for argument, _ in EVAL])
@pytest.mark.usefixtures("rubbish")
def test_eval_says_what_is_wrong_in_one_line(refused, evaluate, tmp_path, argument, line):
    arguments = [argument.replace("FOLDER", str(tmp_path))]
    if not argument.startswith("run="):
        arguments.append(f"run={tmp_path}/run")
    before = sorted(tmp_path.rglob("*"))
    assert line in refused(lambda: evaluate(*arguments))
    assert sorted(tmp_path.rglob("*")) == before  # nothing written, and no code of a checkpoint run


ANOTHER = "name another run"
CONFIG_FILE = "FOLDER/run/.hydra/config.yaml"
NET = "digit_classifier.models.CNN"


def foreign(key: str, name: str) -> str:
    return (
        f"FOLDER/run: its config names what no config of this project does: {key}={name}; if you trust where the run "
        f"comes from, say so with 'allow=[{name}]'"
    )


RUNS = [
    (
        "run.json",
        "{",
        "FOLDER/run/run.json is damaged (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); "
        + ANOTHER,
    ),
    (".hydra/config.yaml", None, f"{CONFIG_FILE} cannot be read (No such file or directory); {ANOTHER}"),
    (
        ".hydra/config.yaml",
        "a: [1",
        f"{CONFIG_FILE} cannot be read (while parsing a flow sequence, line 1, column 4 expected "
        f"',' or ']', but got '<stream end>', line 1, column 6); {ANOTHER}",
    ),
    (".hydra/config.yaml", "", f"{CONFIG_FILE} is damaged: it holds no keys and values; {ANOTHER}"),
    (".hydra/config.yaml", "[1, 2]", f"{CONFIG_FILE} is damaged: it holds no keys and values; {ANOTHER}"),
    ("run.json", "[]", f"FOLDER/run/run.json is damaged: it says no state, overrides, metrics; {ANOTHER}"),
    ("run.json", '{"state": "finished"}', f"FOLDER/run/run.json is damaged: it says no overrides, metrics; {ANOTHER}"),
    (".hydra/config.yaml", {NET: "os.system"}, foreign("model.net._target_", "os.system")),
    (".hydra/config.yaml", {NET: "somewhere.Net"}, foreign("model.net._target_", "somewhere.Net")),
]


@pytest.mark.parametrize(("name", "content", "line"), RUNS, ids=range(len(RUNS)))
def test_damaged_run_is_refused_in_one_line(refused, evaluate, run_of, name, content, line):
    path = run_of / name
    if content is None:
        path.unlink()
    elif isinstance(content, dict):
        [(old, new)] = content.items()
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    else:
        path.write_text(content, encoding="utf-8")
    assert line in refused(lambda: evaluate(f"run={run_of}"))
    assert not (run_of / "eval").exists()


def test_several_mistakes_are_reported_together(refused, script):
    told = refused(lambda: script("train.py", "data=mnist_sample", "seed=-1", "optimizer.lr=abc", "mode=best"))
    assert [line for line in told if line.startswith(("seed=", "optimizer.lr=", "mode="))] == [
        "optimizer.lr=abc must be a number greater than 0",
        f"seed=-1 {SEED}",
        "mode=best must be min or max",
    ]


def test_paths_with_spaces_and_unicode_work(script, tmp_path):
    place = tmp_path / "größe & 数字 [1]"
    place.mkdir()
    small = ["data=mnist_sample", "trainer=cpu", "logger=csv", "callbacks=[checkpoint]", "trainer.max_epochs=1"]
    script("train.py", *small, "++trainer.limit_train_batches=1", f"hydra.run.dir='{place}/run'")
    pictures = place / "meine bilder"
    pictures.mkdir()
    Image.new("L", (28, 28), "white").save(pictures / "ä ö.png")
    script("eval.py", "accelerator=cpu", f"run='{place}/run'", f"predict='{pictures}'")
    assert (place / "run/eval/best/predictions_meine bilder.csv").is_file()
