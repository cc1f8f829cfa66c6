"""Images in shards are those of the folder that they were made of."""

import pytest
import torch
from hydra.utils import instantiate
from PIL import Image

pytest.importorskip("webdataset")

SHAPE = "data.image_shape=[3,8,8]"


@pytest.fixture
def shards(root, compose, tmp_path):
    """The DataModules of a folder of images and of the shards that it was written to, seven images each."""
    from digit_classifier import class_folders
    from digit_classifier.data.make_shards import make_shards

    class_folders.register()
    for number in range(60):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 2 * number, 3 * number)).save(path)
    options = ("data.num_workers=0", "data.batch_size=4", SHAPE)
    plain = "data.train_transforms=${data.eval_transforms}"
    folder = instantiate(
        compose("data=image_folder", f"data.folder={tmp_path.as_posix()}/images", plain, *options).data
    )
    make_shards(tmp_path / "shards", folder, samples=7)
    folder.setup("fit")
    streamed = instantiate(compose("data=shards", f"data.folder={tmp_path.as_posix()}/shards", plain, *options).data)
    streamed.setup("fit")
    return folder, streamed


def samples(loader) -> list[tuple[int, int]]:
    """Each image's number and label."""
    return [
        sample for images, labels in loader for sample in zip(images[:, 0, 0, 0].tolist(), labels.tolist(), strict=True)
    ]


def test_every_part_has_the_images_and_labels_of_the_folder(shards):
    folder, streamed = shards
    assert streamed.class_names == ["a", "b"]
    assert streamed.statistics == folder.statistics
    for name in ("train_dataloader", "val_dataloader", "test_dataloader"):
        assert sorted(samples(getattr(streamed, name)())) == sorted(samples(getattr(folder, name)()))


def test_evaluation_goes_in_the_order_of_the_labels(shards):
    _, streamed = shards
    assert [label for _, label in samples(streamed.test_dataloader())] == streamed.test_set.labels.tolist()
    assert torch.equal(streamed.test_set[3][0], torch.cat([images for images, _ in streamed.test_dataloader()])[3])


def test_training_order_is_of_seed_and_epoch(shards):
    _, streamed = shards

    def epoch(number: int):
        loader = streamed.train_dataloader()
        loader.sampler.set_epoch(number)
        return samples(loader)

    assert epoch(1) == epoch(1)
    assert epoch(1) != epoch(2)


@pytest.mark.parametrize("url", ["pipe:touch here", "https://host/a'; touch here '", "$(touch here)"])
def test_address_that_a_shell_would_run_is_refused(root, url):
    from digit_classifier.data.shards import LOCATION

    assert LOCATION.fullmatch(url) is None
