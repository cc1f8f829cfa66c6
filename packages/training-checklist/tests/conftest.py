"""A check on a small network of the test's own, under the Trainer and the thresholds of the item's config."""

import json
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from typing import Any

import pytest
import torch
import yaml
from hydra.utils import instantiate
from in_project import fixtures
from jsonschema import Draft202012Validator
from own_project import without_others
from pytorch_lightning import LightningDataModule, LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from training_checklist import session
from training_checklist.ending import FitEnded
from training_checklist.experiments.experiment import after_fit
from training_checklist.finding import Verdict

CONF = resources.files("training_checklist") / "conf" / "debug"
SCHEMA = resources.files("training_checklist.reporting") / "report.schema.json"
REPORTS = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))

# For the few tests that are about a whole project.
globals().update(fixtures())


@pytest.fixture(autouse=True)
def reports_fit_their_schema(request):
    """Every report that a test makes is held against the schema that is published for its readers."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    for path in () if folder is None else folder.rglob("report.json"):
        REPORTS.validate(json.loads(path.read_text(encoding="utf-8")))


class Net(LightningModule):
    """A healthy classifier of 8 numbers into 4 classes; tests break what they are about."""

    def __init__(self, lr: float = 0.01) -> None:
        super().__init__()
        self.lr = lr
        self.first = nn.Linear(8, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(inputs)))

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(self(inputs), labels)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(batch)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Data(LightningDataModule):
    """Numbers around four centres, with the centre as label; mean 0, standard deviation 1."""

    def __init__(self, batch_size: int = 16) -> None:
        super().__init__()
        self.batch_size = batch_size

    def part(self, seed: int) -> TensorDataset:
        generator = torch.Generator().manual_seed(seed)
        centres = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
        labels = torch.arange(160) % 4
        inputs = centres[labels] + 0.3 * torch.randn(160, 8, generator=generator)
        return TensorDataset((inputs - inputs.mean()) / inputs.std(), labels)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.part(1), self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.part(2), self.batch_size)


@pytest.fixture
def examine(tmp_path) -> Callable[..., Verdict]:
    """`examine(item, module, data, **trainer)`: the verdict of one item; an exception of the run is its finding."""

    @without_others()
    def run(
        item: str, module: LightningModule, data: LightningDataModule | None = None, more: Any = (), **trainer: Any
    ) -> Verdict:
        text = (CONF / f"{item}.yaml").read_text(encoding="utf-8")
        config = yaml.safe_load(text)
        session.begin()
        seed_everything(0, verbose=False)
        check = instantiate(config["callbacks"][f"debug_{item}"])
        session.add(check)
        options = (
            {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
            | config.get("trainer", {"max_epochs": 1})
            | trainer
        )
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": tmp_path}
        try:
            trainer = Trainer(**options, **quiet, callbacks=[check, *more])
            trainer.fit(module, datamodule=data or Data())
            with suppress(FitEnded):
                after_fit(trainer)
            check.conclude(tmp_path)
        except Exception as error:
            finding = check.explain(error)
            if finding is None:
                raise
            check.findings = [*(known for known in check.findings if known != finding), finding]
        finally:
            session.begin()
        return check.verdict("")

    return run


@pytest.fixture
def net() -> type[Net]:
    return Net


@pytest.fixture
def normed(net) -> type[Net]:
    """The network with a BatchNorm."""

    class Normed(net):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(32)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(torch.relu(self.norm(self.first(inputs))))

    return Normed


@pytest.fixture
def data() -> type[Data]:
    return Data
