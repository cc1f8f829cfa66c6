"""What every test relies on: no network, one thread, no leftovers of Hydra, configs and scripts without a shell."""

import logging
import os
import runpy
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import hydra
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from {{ cookiecutter.package }}.training import resolvers
from {{ cookiecutter.package }}.training.sweep_summary import SweepSummary

PROJECT = Path(__file__).parents[1]

# A run of a second: two steps, one batch to validate and one to test.
TINY = (
    "data=mnist_sample",
    "trainer=cpu",
    "trainer.max_epochs=1",
    "++trainer.limit_train_batches=2",
    "++trainer.limit_val_batches=1",
    "++trainer.limit_test_batches=1",
    "callbacks=[checkpoint,lr_monitor]",
    "logger=csv",
)

resolvers.register()


@pytest.fixture(scope="session", autouse=True)
def no_network():
    """Refuse every connection and every name beyond loopback, at once instead of after a time-out."""
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def local_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(address[0]):
            raise ConnectionRefusedError(f"tests have no network: connection to {address} refused")
        return connect(self, address)

    def local_resolve(host, *arguments, **options):
        if not is_loopback(host):
            raise socket.gaierror(f"tests have no network: {host} not resolved")
        return resolve(host, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local_connect)
        patch.setattr(socket, "getaddrinfo", local_resolve)
        patch.setenv("no_proxy", "*")
        yield


def is_loopback(host: str | None) -> bool:
    return host in (None, "", "localhost", "::1") or str(host).startswith("127.")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    # Sums over a fixed number of threads come out the same to the last bit, and parallel test runs don't fight.
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_leftovers():
    yield
    clear_hydra()


def clear_hydra() -> None:
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None


@pytest.fixture
def compose(tmp_path):
    """`compose(*overrides)`: conf/train.yaml on the bundled sample, outside a Hydra application."""

    def run(*overrides: str):
        folder = tmp_path.as_posix()
        outside = ["data=mnist_sample", f"output_dir='{folder}'", f"data_dir='{folder}/data'"]
        with hydra.initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
            return hydra.compose("train", overrides=[*outside, *overrides])

    return run


@contextmanager
def as_process(folder: Path, *argv: str):
    """Working directory, arguments, environment, logging and torch's switches, all put back in the end."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    environment = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", list(argv))
        patch.setattr(SweepSummary, "folder", None)  # of the sweep of this process, if it is one
        try:
            yield
        finally:
            for handler in set(root.handlers) - set(handlers):
                handler.close()
            root.handlers[:], root.level = handlers, level
            os.environ.clear()
            os.environ.update(environment)
            torch.use_deterministic_algorithms(False)
            torch.backends.cudnn.deterministic = False
            clear_hydra()


def run_script(name: str, folder: Path, *arguments: str) -> None:
    """Run the project's script `name` in `folder` as the command line does, but in this process."""
    with as_process(folder, name, *arguments):
        runpy.run_path(str(PROJECT / name), run_name="__main__")


def run_train(folder: Path, *arguments: str) -> Path:
    """Run train.py in `folder`; return the directory of the run."""
    runs = "outputs/*/*/*/run.json"  # those of a checklist's items lie deeper
    before = set(folder.glob(runs))
    run_script("train.py", folder, *arguments)
    [record] = set(folder.glob(runs)) - before
    return record.parent


@pytest.fixture
def script(tmp_path):
    """`script(name, *arguments)`: a script of the project in this process, in a folder where nothing is."""
    return lambda name, *arguments: run_script(name, tmp_path, *arguments)


@pytest.fixture
def train(tmp_path):
    """`train(*overrides)`: a tiny run in this process; its directory."""
    return lambda *overrides: run_train(tmp_path, *TINY, *overrides)


@pytest.fixture
def train_as_given(tmp_path):
    """`train_as_given(*overrides)`: a run with these overrides and no others; its directory."""
    return lambda *overrides: run_train(tmp_path, *overrides)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """The directory of a tiny run with seed 0. Not to be changed."""
    return run_train(tmp_path_factory.mktemp("tiny"), *TINY, "seed=0")


@pytest.fixture(scope="session")
def shown(tmp_path_factory) -> Path:
    """The directory of a small run with all that people look at: TensorBoard, figures, report. Not to be changed."""
    watched = ("callbacks=[checkpoint,figures,lr_monitor,step_monitor]", "logger=[tensorboard,csv]")
    longer = ("trainer.max_epochs=2", "trainer.limit_train_batches=6", "trainer.log_every_n_steps=3")
    return run_train(tmp_path_factory.mktemp("shown"), *TINY, *watched, *longer, "seed=0", "optimizer.lr=0.002")


@pytest.fixture(scope="session")
def train_in():
    """`train_in(folder, *arguments)`: train.py in this process."""
    return lambda folder, *arguments: run_script("train.py", folder, *arguments)


@pytest.fixture
def sweep(tmp_path):
    """`sweep(*overrides)`: a multirun of tiny runs in this process; the directories of its runs, in their order."""

    def run(*overrides: str) -> list[Path]:
        run_script("train.py", tmp_path, "--multirun", *TINY, *overrides)
        return sorted(record.parent for record in tmp_path.glob("multirun/**/run.json"))

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """The directory of a run over the whole sample, good enough to recognise most digits. Not to be changed."""
    whole = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "callbacks=checkpoint", "logger=csv")
    return run_train(tmp_path_factory.mktemp("trained"), *whole, "optimizer.lr=0.003")


@pytest.fixture(scope="session")
def evaluate_in():
    """`evaluate_in(folder, *overrides)`: eval.py in this process, on the CPU."""
    return lambda folder, *overrides: run_script("eval.py", folder, "accelerator=cpu", *overrides)


@pytest.fixture
def evaluate(evaluate_in, tmp_path):
    """`evaluate(*overrides)`: the same in a folder where nothing is."""
    return lambda *overrides: evaluate_in(tmp_path, *overrides)
