from types import SimpleNamespace

import pytest
import torch
from hydra.utils import instantiate
from pytorch_lightning import Trainer


@pytest.fixture
def of_rank(compose):
    """`of_rank(rank)`: the sample with 501 images to validate, as one of two ranks has it; None for a single one."""

    def run(rank: int | None):
        datamodule = instantiate(compose("data.val_size=501").data)
        datamodule.setup("fit")
        if rank is not None:
            strategy = SimpleNamespace(root_device=torch.device("cpu"))
            loop = Trainer(logger=False).fit_loop
            datamodule.trainer = SimpleNamespace(world_size=2, global_rank=rank, strategy=strategy, fit_loop=loop)
        return datamodule

    return run


def numbers(loader) -> list[int]:
    """The images of a loader by their place in the dataset."""
    return [index for batch in loader.batch_sampler for index in batch]


def test_ranks_share_the_evaluation_images_without_repeats(of_rank):
    whole = numbers(of_rank(None).val_dataloader())
    assert len(whole) == 501
    shares = [numbers(of_rank(rank).val_dataloader()) for rank in (0, 1)]
    assert sorted(shares[0] + shares[1]) == sorted(whole)


def test_ranks_take_as_many_training_images_each(of_rank):
    first, second = (numbers(of_rank(rank).train_dataloader()) for rank in (0, 1))
    # 3,499 images: one of them is seen twice, so that no rank waits for another.
    assert len(first) == len(second) == 1750
    assert len(set(first) | set(second)) == 3499


def test_sample_of_a_rank_is_found_in_the_whole_dataset(root):
    from digit_classifier.evaluation.prediction_figures import PredictionFigures

    figures = PredictionFigures(enabled=True, folder="", split="test", worst=1)

    class SecondOfThree:
        world_size, global_rank, fast_dev_run, datamodule = 3, 1, False, None

    for number, size in enumerate((2, 1)):
        batch = torch.zeros(size, 1, 2, 2), torch.zeros(size, dtype=torch.int64)
        figures._keep("test", SecondOfThree, torch.zeros(size, 10), batch, number)
    assert figures.kept["indices"].compute().tolist() == [1, 4, 7]
