import logging
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate


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
