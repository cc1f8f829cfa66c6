"""Downloads through torchvision that give up after seconds, and of which nobody sees a half."""

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock
from training_config.errors import ConfigError

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


def answers(url: str, seconds: float) -> bool:
    """Tell within `seconds` whether a server answers for `url`; name resolution alone can hang for minutes."""
    reached = Event()

    def ask() -> None:
        try:
            urlopen(Request(url, method="HEAD"), timeout=seconds).close()
        except OSError as error:
            if not isinstance(error, HTTPError):  # a refusal is an answer too
                return
        reached.set()

    question = Thread(target=ask, daemon=True)
    question.start()
    question.join(seconds)
    return reached.is_set()
