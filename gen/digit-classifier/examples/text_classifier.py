"""Classification of texts: python train.py +experiment=text_classifier"""

import csv
import importlib
import inspect
import pkgutil
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from pydantic import NonNegativeInt, PositiveInt
from pytorch_lightning import LightningDataModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from training_config.errors import ConfigError
from training_runs.sampling.epoch_sampler import EpochSampler


class TextData(LightningDataModule):
    """Texts as the numbers of their words (B, length), 0 where a text has ended: 60, 20 and 20 percent of them.

    A word's number is its checksum, so that no vocabulary has to be kept (Weinberger et al. 2009, "Feature Hashing").
    """

    def __init__(
        self,
        csv: str | None,
        class_names: Sequence[str],
        num_classes: PositiveInt,
        words: PositiveInt,
        length: PositiveInt,
        batch_size: PositiveInt,
        seed: NonNegativeInt,
    ) -> None:
        super().__init__()
        if len(class_names) != num_classes:
            raise ConfigError(f"data.class_names has {len(class_names)} names but data.num_classes={num_classes}")
        self.csv, self.class_names, self.words, self.length = csv, list(class_names), words, length
        self.batch_size, self.seed = batch_size, seed
        self.source = "docstrings of Python" if csv is None else Path(csv).name
        self.predict_files: list[Path] | None = None  # eval.py predict=new.csv sets it

    def setup(self, stage: str) -> None:
        found = docstrings(self.class_names) if self.csv is None else read_texts(Path(self.csv))
        texts = {text: self.class_names.index(label) for text, label in found}  # each once
        numbers = torch.tensor([self.numbers(text) for text in texts])
        labels = torch.tensor(list(texts.values()))
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))  # one split for every seed
        parts = order.tensor_split([len(order) * 3 // 5, len(order) * 4 // 5])
        self.train_set, self.val_set, self.test_set = (Texts(numbers[part], labels[part]) for part in parts)

    def numbers(self, text: str) -> list[int]:
        words = re.findall(r"\w+", text.lower())[: self.length]
        numbers = [1 + zlib.crc32(word.encode()) % (self.words - 1) for word in words]
        return numbers + [0] * (self.length - len(numbers))

    def train_dataloader(self) -> DataLoader:
        sampler = EpochSampler(self.train_set, self.batch_size, self.seed, self.trainer)  # resumes amid an epoch
        return DataLoader(self.train_set, batch_size=self.batch_size, sampler=sampler)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val_set, batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test_set, batch_size=self.batch_size)

    def predict_dataloader(self) -> DataLoader:
        if self.predict_files is None:
            return self.test_dataloader()
        texts = [text for path in self.predict_files for text, _ in read_texts(path)]
        numbers = torch.tensor([self.numbers(text) for text in texts])
        return DataLoader(Texts(numbers, torch.zeros(len(texts))), batch_size=self.batch_size)


class Texts(TensorDataset):
    """Pairs of words and label; eval.py compares its predictions with `labels`."""

    @property
    def labels(self) -> Tensor:
        return self.tensors[1]


def docstrings(modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of what modules of Python's library say of themselves, each with its module's name."""
    for name in modules:
        package = importlib.import_module(name)
        below = [f"{name}.{each.name}" for each in pkgutil.iter_modules(getattr(package, "__path__", []))]
        for path in [name, *(path for path in below if "windows" not in path and "__main__" not in path)]:
            for owner in [kind for kind in vars(importlib.import_module(path)).values() if inspect.isclass(kind)]:
                for member in (owner, *vars(owner).values()):
                    for paragraph in (inspect.getdoc(member) or "").split("\n\n"):
                        if owner.__module__.startswith(name) and len(paragraph.split()) > 5:
                            yield paragraph, name


def read_texts(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["text"], row.get("label", "")) for row in csv.DictReader(file)]


class BagOfWords(nn.Module):
    """The mean of the words' vectors, and a linear layer (Joulin et al. 2017, "Bag of Tricks")."""

    def __init__(self, words: PositiveInt, num_classes: PositiveInt, width: PositiveInt) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(words, width, padding_idx=0)
        self.head = nn.Linear(width, num_classes)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.head(self.vectors(numbers))  # (B, length) -> (B, width) -> (B, num_classes)
