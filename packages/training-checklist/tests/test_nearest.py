"""A finding that names no line of its own leads to the nearest one of the project's code."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset
from training_checklist import check


class Digits(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((8,), float("nan" if index == 3 else index % 5)), index % 4


def spoiled():
    samples = [Digits()[index] for index in range(64)]
    return TensorDataset(torch.stack([inputs for inputs, _ in samples]), torch.tensor([label for _, label in samples]))


@pytest.fixture
def told(net, data, tmp_path):
    """`told(dataset)`: file, line and its text as SARIF has them, of what is not finite in it."""

    def run(dataset, **options):
        class Spoiled(data):
            def train_dataloader(self):
                return DataLoader(dataset, 16)

        datamodule = None if options else Spoiled()
        check(net(), datamodule, items=["limit_batches"], folder=tmp_path, **options)
        results = json.loads((tmp_path / "report.sarif").read_text())["runs"][0]["results"]
        [found] = [each for each in results if each["ruleId"] == "data/value-not-finite"][:1]
        place = found["locations"][0]["physicalLocation"]
        file, line = place["artifactLocation"]["uri"], place["region"]["startLine"]
        return Path(file).name, Path(file).read_text().splitlines()[line - 1].strip()

    return run


@pytest.mark.parametrize(
    "wrap", [lambda each: each, lambda each: Subset(each, range(32)), lambda each: ConcatDataset([each])]
)
def test_data_lead_to_the_class_of_the_dataset_whatever_it_is_wrapped_in(told, wrap):
    assert told(wrap(Digits())) == (Path(__file__).name, "class Digits(Dataset):")


def test_data_of_a_class_of_torch_lead_to_the_method_that_makes_their_loader(told):
    assert told(spoiled()) == (Path(__file__).name, "def train_dataloader(self):")


def test_loaders_that_a_script_makes_lead_to_the_call_that_is_given_them(told):
    loaders = {"train_dataloaders": DataLoader(spoiled(), 16), "val_dataloaders": DataLoader(spoiled(), 16)}
    file, line = told(None, loaders=loaders)
    assert (file, line.startswith("check(net(), datamodule")) == (Path(__file__).name, True)


def test_metric_leads_to_the_line_that_logs_it(net, data, tmp_path):
    class Odd(net):
        def validation_step(self, batch, batch_idx):
            self.log("val/odd", torch.tensor(float("nan")))

    check(Odd(), data(), items=["fast_dev_run"], folder=tmp_path)
    [item] = json.loads((tmp_path / "report.json").read_text())["items"]
    assert [each["near"]["source"] for each in item["findings"]] == ['self.log("val/odd", torch.tensor(float("nan")))']
