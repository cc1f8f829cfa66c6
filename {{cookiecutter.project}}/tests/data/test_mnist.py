import logging
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import torch
from hydra.errors import CompactHydraException
from hydra.utils import instantiate

from {{ cookiecutter.package }}.data import mnist
from {{ cookiecutter.package }}.errors import DataError


@pytest.fixture
def build(compose):
    """`build(*overrides)`: the DataModule, prepared and set up for all stages."""

    def run(*overrides: str):
        datamodule = instantiate(compose(*overrides).data)
        datamodule.prepare_data()
        for stage in ("fit", "test"):
            datamodule.setup(stage)
        return datamodule

    return run


@pytest.fixture
def write_dataset(write_idx):
    """`write_dataset(folder, suffix)`: twelve images to train on and four to test, in MNIST's four files."""

    def write(folder: Path, suffix: str = "") -> None:
        folder.mkdir(parents=True)
        for part, count in (("train", 12), ("t10k", 4)):
            images = torch.arange(count).view(-1, 1, 1).expand(-1, 28, 28)
            write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
            write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", torch.arange(count) % 10)

    return write


def sizes(datamodule) -> tuple[int, int, int]:
    return len(datamodule.train_set), len(datamodule.val_set), len(datamodule.test_set)


def test_sample_has_3500_images_to_train_500_to_validate_and_1000_to_test(build):
    datamodule = build("data=mnist_sample")
    assert sizes(datamodule) == (3500, 500, 1000)
    assert datamodule.source == "mnist_sample"


def test_no_image_of_the_sample_is_in_two_parts(build):
    datamodule = build("data=mnist_sample")
    parts = (datamodule.train_set, datamodule.val_set, datamodule.test_set)
    images = [image.numpy().tobytes() for part in parts for image in part.images]
    assert len(set(images)) == 5000


def test_normalised_sample_has_mean_zero_and_deviation_one(build):
    datamodule = build("data=mnist_sample")
    normalised, _ = datamodule.on_after_batch_transfer((datamodule.train_set.images, None), 0)
    assert normalised.mean().item() == pytest.approx(0, abs=0.01)
    assert normalised.std().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("place", ["data/{}/raw", "data"])
@pytest.mark.parametrize(("option", "dataset"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")])
def test_files_are_found_in_both_layouts(build, write_dataset, tmp_path, option, dataset, place, suffix):
    write_dataset(tmp_path / place.format(dataset), suffix)
    datamodule = build(f"data={option}", "data.val_size=2", "data.fallback=null")
    assert sizes(datamodule) == (10, 2, 4)
    assert datamodule.source == dataset


def test_images_on_disk_arrive_with_their_labels(build, write_dataset, tmp_path):
    write_dataset(tmp_path / "data")
    test_set = build("data=mnist", "data.val_size=2").test_set
    assert test_set.images.shape == (4, 1, 28, 28)
    assert test_set.images[:, 0, 0, 0].tolist() == test_set.labels.tolist() == [0, 1, 2, 3]


def test_without_files_and_network_the_sample_stands_in(build):
    datamodule = build("data=mnist")
    assert sizes(datamodule) == (3500, 500, 1000)
    assert datamodule.source == "mnist_sample (instead of MNIST)"


def test_stand_in_is_announced_once(build, caplog):
    datamodule = build("data=mnist")
    datamodule.prepare_data()
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "TRAINING ON THE BUNDLED SAMPLE OF 5,000 DIGITS INSTEAD" in record.message


@pytest.mark.parametrize("overrides", [["data=mnist", "data.fallback=null"], ["data=fashion_mnist"]])
def test_without_a_stand_in_missing_data_is_an_error_that_names_the_fix(build, tmp_path, overrides):
    with pytest.raises(DataError, match=r"put its four IDX files into .*, or set data=mnist_sample") as missing:
        build(*overrides)
    assert str(tmp_path / "data") in str(missing.value)


def test_unknown_stand_in_is_refused(build):
    with pytest.raises(CompactHydraException, match=r"data\.fallback='cifar' must be mnist_sample or null"):
        build("data=mnist", "data.fallback=cifar")


def test_unknown_dataset_is_refused_by_its_key(build):
    with pytest.raises(CompactHydraException, match=r"data\.dataset='?MINST"):
        build("data=mnist", "data.dataset=MINST")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_half_a_file_is_an_error_that_names_it_and_no_reason_for_the_stand_in(build, write_dataset, tmp_path, suffix):
    write_dataset(tmp_path / "data", suffix)
    path = tmp_path / "data" / f"train-images-idx3-ubyte{suffix}"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=re.escape(str(path))):
        build("data=mnist", "data.val_size=2")


def test_labels_of_other_images_are_an_error(build, write_dataset, write_idx, tmp_path):
    write_dataset(tmp_path / "data")
    write_idx(tmp_path / "data" / "t10k-labels-idx1-ubyte", torch.zeros(5))
    with pytest.raises(DataError, match=r"t10k images of shape \(4, 28, 28\) do not belong to labels of shape \(5,\)"):
        build("data=mnist", "data.val_size=2")


class Refusal(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(404)
        self.end_headers()

    def log_message(self, *arguments):
        """Nothing for the terminal."""


def test_server_that_refuses_has_answered():
    with HTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert mnist.answers(f"http://127.0.0.1:{server.server_port}", seconds=30)
        thread.join()


def test_closed_port_gives_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not mnist.answers(f"http://127.0.0.1:{port}", seconds=30)


def test_host_that_stays_silent_is_given_up():
    # The kernel takes the connection for a server that never does.
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not mnist.answers(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=0.1)


def test_name_resolution_that_hangs_is_given_up(monkeypatch):
    given_up = threading.Event()

    def hang(*arguments, **options):
        given_up.wait()
        raise OSError

    monkeypatch.setattr(mnist, "urlopen", hang)
    assert not mnist.answers("http://example.org", seconds=0.1)
    given_up.set()
