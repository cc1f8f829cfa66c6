"""Downloads through torchvision that give up after seconds, and of which nobody sees a half."""

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock
from training_config.errors import ConfigError
from training_runs.reachable import answers

log = logging.getLogger(__name__)


def download(name: str, data_dir: Path, seconds: float, is_there: Callable[[], bool]) -> None:
    """Put the files of a dataset of MNIST's family into `<data_dir>/<name>/raw`.

    Args:
        name: a class of `torchvision.datasets`.
        data_dir: is made if need be.
        seconds: without an answer from the network, after which it is given up.
        is_there: asked once no other process downloads: one may just have done so.

    Raises:
        ConfigError: torchvision has no such dataset in MNIST's format.
        OSError, RuntimeError: the network does not answer, or has no such files.
    """
    from torchvision import datasets  # a second of import that only a download needs

    dataset = getattr(datasets, name, None)
    if not (isinstance(dataset, type) and issubclass(dataset, datasets.MNIST)):
        raise ConfigError(f"data.dataset={name} must be MNIST, FashionMNIST or KMNIST")
    if not answers(dataset.mirrors[0], seconds):
        raise OSError(f"no answer from {dataset.mirrors[0]} within {seconds:g} s")
    data_dir.mkdir(parents=True, exist_ok=True)
    log.info("Downloading %s to %s, or waiting for another process that does.", name, data_dir)
    # The lock ends with its process, whatever ends that; a draft is moved only when it is whole.
    with FileLock(data_dir / f".{name}.lock"), TemporaryDirectory(dir=data_dir) as draft:
        if is_there():
            return
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(seconds)  # of silence; torchvision sets no limit
        try:
            dataset(draft, download=True)
        finally:
            socket.setdefaulttimeout(before)
        raw = data_dir / name / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for path in Path(draft, name, "raw").iterdir():
            path.replace(raw / path.name)
