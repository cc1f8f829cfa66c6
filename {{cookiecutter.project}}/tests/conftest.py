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
from training_runs.start import resolvers
from training_runs.sweeps.sweep_summary import SweepSummary

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


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return Path(__file__).parents[1]


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
def no_leftovers_of_hydra():
    yield
    clear_hydra()


def clear_hydra() -> None:
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None


@pytest.fixture
def compose(root, tmp_path):
    """`compose(*overrides)`: conf/train.yaml on the bundled sample, outside a Hydra application."""

    def run(*overrides: str):
        folder = tmp_path.as_posix()
        outside = ["data=mnist_sample", f"output_dir='{folder}'", f"data_dir='{folder}/data'"]
        with hydra.initialize_config_dir(str(root / "conf"), version_base="1.3"):
            return hydra.compose("train", overrides=[*outside, *overrides])

    return run


@contextmanager
def as_process(folder: Path, *argv: str):
    """Working directory, arguments, environment, logging and torch's switches, all put back in the end."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    environment = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", list(argv))
        patch.setattr(SweepSummary, "folder", None)  # of the sweep of this process, if it is one
        try:
            yield
        finally:
            for handler in set(logger.handlers) - set(handlers):
                handler.close()
            logger.handlers[:], logger.level = handlers, level
            os.environ.clear()
            os.environ.update(environment)
            torch.use_deterministic_algorithms(False)
            torch.backends.cudnn.deterministic = False
            clear_hydra()


@pytest.fixture(scope="session")
def script_in(root):
    """`script_in(folder, name, *arguments)`: a script of the project as the command line runs it, in this process."""

    def run(folder: Path, name: str, *arguments: str) -> None:
        with as_process(folder, name, *arguments):
            try:
                runpy.run_path(str(root / name), run_name="__main__")
            except SystemExit as stop:
                if stop.code:
                    raise

    return run


@pytest.fixture
def script(script_in, tmp_path):
    """`script(name, *arguments)`: the same in a folder where nothing is."""
    return lambda name, *arguments: script_in(tmp_path, name, *arguments)


@pytest.fixture(scope="session")
def train_in(script_in):
    """`train_in(folder, *overrides)`: a run with these overrides and no others; its directory."""

    def run(folder: Path, *overrides: str) -> Path:
        runs = "outputs/*/*/*"
        before = set(folder.glob(runs))
        script_in(folder, "train.py", *overrides)
        [run] = set(folder.glob(runs)) - before
        return run

    return run


@pytest.fixture
def train(train_in, tmp_path):
    """`train(*overrides)`: a tiny run; its directory."""
    return lambda *overrides: train_in(tmp_path, *TINY, *overrides)


@pytest.fixture
def sweep(script_in, tmp_path):
    """`sweep(*overrides)`: a multirun of tiny runs; the directories of its runs, in their order."""

    def run(*overrides: str) -> list[Path]:
        script_in(tmp_path, "train.py", "--multirun", *TINY, *overrides)
        return sorted(record.parent for record in tmp_path.glob("multirun/**/run.json"))

    return run


@pytest.fixture(scope="session")
def evaluate_in(script_in):
    """`evaluate_in(folder, *overrides)`: eval.py on the CPU."""
    return lambda folder, *overrides: script_in(folder, "eval.py", "accelerator=cpu", *overrides)


@pytest.fixture
def evaluate(evaluate_in, tmp_path):
    """`evaluate(*overrides)`: the same in a folder where nothing is."""
    return lambda *overrides: evaluate_in(tmp_path, *overrides)


@pytest.fixture(scope="session")
def tiny(train_in, tmp_path_factory) -> Path:
    """The directory of a tiny run with seed 0. Not to be changed."""
    return train_in(tmp_path_factory.mktemp("tiny"), *TINY, "seed=0")


@pytest.fixture(scope="session")
def trained(train_in, tmp_path_factory) -> Path:
    """The directory of a run over the whole sample, good enough to recognise most digits. Not to be changed."""
    whole = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "callbacks=checkpoint", "logger=csv")
    return train_in(tmp_path_factory.mktemp("trained"), *whole, "optimizer.lr=0.003")
