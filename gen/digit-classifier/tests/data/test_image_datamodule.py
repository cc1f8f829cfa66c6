import pytest
import torch
from PIL import Image

from digit_classifier.data.image_datamodule import ImageDataModule

ARGUMENTS = {
    "batch_size": 16,
    "num_workers": 0,
    "val_size": 51,
    "split_seed": 1,
    "seed": 0,
    "mean": [0.25],
    "std": [0.5],
    "image_shape": [1, 2, 2],
    "num_classes": 4,
    "class_names": list("abcd"),
}


class Numbered(ImageDataModule):
    """200 training and 40 test images; every pixel of an image is its number."""

    source = "numbered"

    def load(self, train: bool):
        number = torch.arange(200 if train else 40)
        return number.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2), number % 4


def numbered(stage: str = "fit", **arguments) -> Numbered:
    datamodule = Numbered(**ARGUMENTS | arguments)
    datamodule.setup(stage)
    return datamodule


def numbers(batches) -> list[int]:
    """The images in `batches`, in their order."""
    return [int(image[0, 0, 0]) for images, _ in batches for image in images]


def epoch(datamodule: Numbered, number: int) -> list[int]:
    loader = datamodule.train_dataloader()
    loader.sampler.set_epoch(number)
    return numbers(loader)


def test_split_puts_every_image_in_one_part():
    datamodule = numbered()
    train, val = numbers(datamodule.train_dataloader()), numbers(datamodule.val_dataloader())
    assert len(val) == 51
    assert sorted(train + val) == list(range(200))


def test_split_follows_from_its_own_seed_alone():
    def validation(**seeds):
        return numbers(numbered(**seeds).val_dataloader())

    assert validation(seed=0) == validation(seed=1)
    assert validation(split_seed=1) != validation(split_seed=2)


def test_train_order_is_a_function_of_seed_and_epoch():
    torch.manual_seed(1)
    first = epoch(numbered(seed=7), 3)
    torch.manual_seed(2)
    assert epoch(numbered(seed=7), 3) == first
    assert epoch(numbered(seed=7), 4) != first
    assert epoch(numbered(seed=8), 3) != first


def test_loading_draws_nothing_from_the_global_generator():
    datamodule = numbered()
    before = torch.get_rng_state()
    epoch(datamodule, 0)
    numbers(datamodule.val_dataloader())
    assert torch.equal(torch.get_rng_state(), before)


def test_seed_zero_is_a_seed_and_no_seed_draws_one():
    assert numbered(seed=0).seed == 0
    assert numbered(seed=None).seed != numbered(seed=None).seed


def test_every_training_image_is_in_every_epoch():
    datamodule = numbered()
    assert sorted(epoch(datamodule, 0)) == sorted(epoch(datamodule, 1))
    assert len(set(epoch(datamodule, 0))) == 149


def test_evaluation_and_prediction_go_through_the_test_images_in_order():
    assert numbers(numbered("test").test_dataloader()) == list(range(40))
    assert numbers(numbered("predict").predict_dataloader()) == list(range(40))


def test_files_given_for_prediction_replace_the_test_set(tmp_path):
    datamodule = numbered("predict")
    datamodule.predict_files = [tmp_path / f"{number}.png" for number in (90, 91)]
    for path in datamodule.predict_files:
        Image.new("L", (2, 2), int(path.stem)).save(path)
    assert numbers(datamodule.predict_dataloader()) == [90, 91]


def test_batches_leave_the_loader_as_bytes():
    images, labels = next(iter(numbered().train_dataloader()))
    assert (images.dtype, images.shape) == (torch.uint8, (16, 1, 2, 2))
    assert (labels.dtype, labels.shape) == (torch.int64, (16,))


def test_batches_are_normalised_after_the_transfer():
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).view(3, 1, 1, 1)  # 0, 0.2 and 1 of full white
    normalised, labels = numbered().on_after_batch_transfer((images, torch.arange(3)), 0)
    assert normalised.dtype == torch.float32
    assert normalised.flatten().tolist() == pytest.approx([-0.5, -0.1, 1.5])
    assert labels.tolist() == [0, 1, 2]
