"""Images that stream from shards: more than one disk holds."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.utils.data import DataLoader
from training_config.errors import ConfigError
from training_runs.errors import DataError
from training_runs.sampling.shards import Raw, Shards, ShardSampler

from ..class_folders import PARTS
from .image_files import SUFFIXES
from .labelled_images import Batch
from .transformed_images import TransformedImages

# A folder, or what WebDataset opens by a program of its own: nothing that a shell would take for more than a name.
LOCATION = re.compile(r"(?!pipe:)[\w ./\\:~@=+,-]+")


class LabelledShards(Shards):
    """Shards of images, with the labels of all their samples."""

    def __init__(self, urls: Sequence[str], labels: Sequence[Sequence[int]], **arguments: Any) -> None:
        super().__init__(urls, [len(each) for each in labels], **arguments)
        self.labels = torch.tensor([label for each in labels for label in each], dtype=torch.int64)


class ShardsDataModule(TransformedImages):
    """What `make_shards` has written. Evaluation reads it in order, training as `Shards` says.

    Args:
        folder: holds index.json: names of the shards, their labels, class names, mean and deviation.
        url: of the folder with the shards: a path, https://, gs:// and the like.
        buffer: samples that a worker holds, undecoded, to shuffle among.
        **images: as of `TransformedImages`.
    """

    def __init__(self, folder: str, url: str, buffer: PositiveInt, **images: Any) -> None:
        super().__init__(**images)
        if LOCATION.fullmatch(url) is None:
            raise ConfigError(f"data.url={url} must be a folder, or an address such as https://host/folder")
        self.index = Path(folder) / "index.json"
        self.url, self.buffer = url, buffer

    @property
    def source(self) -> str:
        return self.index.parent.resolve().name

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if hasattr(self, "train_set") or self.predict_files is not None:
            return
        index = self._read_index()
        if self.statistics is None:
            self.use_statistics(index["mean"], index["std"])
        reads = {"train": self.load_train_image, "val": self.load_image, "test": self.load_image}
        self.train_set, self.val_set, self.test_set = (self._shards(index[part], reads[part]) for part in PARTS)

    def train_dataloader(self) -> DataLoader[Batch]:
        sampler = ShardSampler(self.train_set, self.batch_size, self.seed, self.trainer)
        return self._loader(self.train_set, sampler)

    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self._read_index(), sort_keys=True).encode()).hexdigest()

    def _shards(self, part: dict[str, list[int]], read: Callable[..., Tensor]) -> LabelledShards:
        urls = [f"{self.url}/{name}" for name in part]
        options = {"batch_size": self.batch_size, "seed": self.seed, "buffer": self.buffer}
        return LabelledShards(urls, [*part.values()], decode=partial(decode, read=read), **options)

    def _read_index(self) -> dict[str, Any]:
        if not self.index.is_file():
            raise DataError(f"data.folder={self.index.parent} has no index.json; write it with make_shards")
        index = json.loads(self.index.read_text(encoding="utf-8"))
        if index["class_names"] != self.class_names:
            raise DataError(f"{self.index} is about the classes {index['class_names']}, not {self.class_names}")
        return index


def decode(raw: Raw, read: Callable[..., Tensor]) -> tuple[Tensor, int]:
    """Return the image and the label of a sample.

    Raises:
        DataError: it has none.
    """
    name = f"{raw['__url__']}: {raw['__key__']}"
    suffix = next((suffix for suffix in SUFFIXES if suffix[1:] in raw), None)
    if suffix is None or "cls" not in raw:
        raise DataError(f"{name} has no image or no label (.cls)")
    return read(Path(f"{name}{suffix}"), content=raw[suffix[1:]]), int(raw["cls"])
