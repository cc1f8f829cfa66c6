import pickle

import pytest
import torch
from torch.utils.data import DataLoader

from digit_classifier.data.in_memory import InMemoryDataset, pass_through

IMAGES = torch.arange(10, dtype=torch.uint8).reshape(10, 1, 1, 1)
LABELS = torch.arange(10)


def test_batch_is_fetched_in_one_call(monkeypatch):
    fetched = []
    whole_batch = InMemoryDataset.__getitems__
    monkeypatch.setattr(InMemoryDataset, "__getitem__", None)
    monkeypatch.setattr(
        InMemoryDataset, "__getitems__", lambda self, indices: fetched.append(indices) or whole_batch(self, indices)
    )
    batches = list(DataLoader(InMemoryDataset(IMAGES, LABELS), batch_size=4, collate_fn=pass_through))
    assert fetched == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [labels.tolist() for _, labels in batches] == fetched


def test_batch_holds_the_images_of_its_labels():
    images, labels = InMemoryDataset(IMAGES, LABELS).__getitems__([7, 2])
    assert images.flatten().tolist() == labels.tolist() == [7, 2]
    assert images.shape == (2, 1, 1, 1)


def test_single_sample_is_an_image_and_its_label():
    image, label = InMemoryDataset(IMAGES, LABELS)[7]
    assert image.shape == (1, 1, 1)
    assert image.item() == label.item() == 7


def test_images_and_labels_must_be_as_many():
    with pytest.raises(ValueError, match="10 images but 9 labels"):
        InMemoryDataset(IMAGES, LABELS[:9])


def test_collate_function_reaches_spawned_workers():
    assert pickle.loads(pickle.dumps(pass_through)) is pass_through
