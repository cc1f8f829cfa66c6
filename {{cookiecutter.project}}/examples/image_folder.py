"""Images of any size in folders: python train.py data=image_folder data.folder=my_images model=torchvision

An example of data that memory does not hold: `setup` makes datasets that read files, the rest is `ImageDataModule`'s.
"""

import csv
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2 import Compose
from torchvision.transforms.v2.functional import pil_to_tensor
from training_config.errors import ConfigError
from training_config.values import Fraction
from training_runs.errors import DataError
from training_runs.sampling.folds import split
from training_runs.sampling.seeded_dataset import SeededDataset

from {{ cookiecutter.package }}.class_folders import subfolders
from {{ cookiecutter.package }}.data.image_datamodule import ImageDataModule
from {{ cookiecutter.package }}.data.image_files import find_images, in_channels, opened
from {{ cookiecutter.package }}.file_names import printable

log = logging.getLogger(__name__)

PARTS = ("train", "val", "test")
Samples = list[tuple[Path, Any]]  # a file and its label, the index of a class


class FolderOfImages(Dataset[tuple[Tensor, Tensor]]):
    """Images that are read from their files when they are asked for, and their labels.

    Args:
        samples: the path and the label of each.
        read: makes (C, H, W) uint8 of a path.
        root: the images are called by their paths within it.
    """

    def __init__(self, samples: Samples, read: Callable[[Path], Tensor], root: Path) -> None:
        # One array, not a list: processes that fork go on sharing its memory.
        self.encoded = np.array([os.fsencode(path) for path, _ in samples])
        self.labels = torch.tensor([label for _, label in samples])
        self.read, self.root = read, root

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.read(Path(os.fsdecode(self.encoded[index]))), self.labels[index]

    @property
    def names(self) -> list[str]:
        return [Path(os.path.relpath(os.fsdecode(path), self.root)).as_posix() for path in self.encoded]


class ImageFolderDataModule(ImageDataModule):
    """Images in `folder`: `train/<class>/...`, `val/` and `test/` likewise, or `<class>/...`, or what a CSV lists.

    Where there is no val or test, a share of each class's other images is taken for it: by `split_seed` and the sorted
    paths, so that it is the same on every machine.

    Args:
        folder: where the images are.
        labels: None, or a CSV with the columns path (relative to `folder`), label, and maybe part (train, val, test).
        val_share: of each class's images (those in train/ where test/ is there), at least one.
        test_share: likewise.
        train_transforms: from a Pillow image to a uint8 image of `image_shape`; what they draw at random follows from
            (seed, epoch, place of the sample).
        eval_transforms: the same for validation, testing and prediction, without anything random.
        **images: as of `ImageDataModule`.
    """

    def __init__(
        self,
        folder: str,
        labels: str | None,
        val_share: Fraction,
        test_share: Fraction,
        train_transforms: Sequence[Callable],
        eval_transforms: Sequence[Callable],
        **images: Any,
    ) -> None:
        super().__init__(val_size=1, **images)  # shares of the classes instead
        if val_share + test_share >= 1:
            raise ConfigError(f"data.val_share={val_share} + data.test_share={test_share} must be less than 1")
        if self.image_shape[0] not in (1, 3):
            raise ConfigError(f"data.image_shape={list(self.image_shape)} must have 1 channel (grey) or 3 (colour)")
        self.folder, self.labels = Path(folder), None if labels is None else Path(labels)
        self.shares = {"test": test_share, "val": val_share}
        self.train_transforms, self.eval_transforms = train_transforms, eval_transforms
        self.source = self.folder.resolve().name

    @property
    def load_image(self) -> Callable[[Path], Tensor]:
        return self._reader("eval_transforms")

    def _reader(self, name: str) -> Callable[[Path], Tensor]:
        return partial(read_transformed, transforms=getattr(self, name), name=name, image_shape=self.image_shape)

    def setup(self, stage: str) -> None:
        self._agree_on_seed()
        if hasattr(self, "train_set") or self.predict_files is not None:
            return
        parts = self._listed() if self.labels is not None else self._in_folders()
        self._split(parts)
        self._check(parts)
        listed = [(name, os.path.relpath(path, self.folder), label) for name in PARTS for path, label in parts[name]]
        self.fingerprint = hashlib.sha256(repr(listed).encode(errors="surrogateescape")).hexdigest()
        reads = {"train": self._reader("train_transforms"), "val": self.load_image, "test": self.load_image}
        train, self.val_set, self.test_set = (FolderOfImages(parts[name], reads[name], self.folder) for name in PARTS)
        self.train_set = SeededDataset(train, self.seed)

    def state_dict(self) -> dict[str, Any]:
        # What of the config was found in the data: evaluation takes it from here.
        found = {"class_names": self.class_names, "num_classes": self.num_classes}
        return super().state_dict() | {"images": self.fingerprint, "found": found}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if state_dict["images"] != self.fingerprint:
            raise DataError(
                f"{self.source} has other images than when this run began: put back what it had, or start a new run"
            )

    def _in_folders(self) -> dict[str, Samples]:
        if not (self.folder / "train").is_dir():
            return {"train": self._of_classes(self.folder)}
        return {name: self._of_classes(self.folder / name) for name in PARTS if (self.folder / name).is_dir()}

    def _of_classes(self, folder: Path) -> Samples:
        unknown = set(subfolders(folder, self.folder)) - set(self.class_names)
        if unknown:
            raise DataError(
                f"{printable(str(folder))} has a folder {printable(sorted(unknown)[0])}, which is none of the classes "
                f"{', '.join(self.class_names)}: remove it, or train on such images too"
            )
        return [(path, label) for label, name in enumerate(self.class_names) for path in find_images(folder / name)]

    def _listed(self) -> dict[str, Samples]:
        parts: dict[str, Samples] = {}
        with self.labels.open(newline="", encoding="utf-8-sig") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: row.get("path") or "")
        for row in rows:
            path, part = self.folder / (row.get("path") or ""), row.get("part", "train")
            try:
                label = self._label(row.get("label"))
            except ValueError:
                label = None
            if not path.is_file() or label is None or part not in PARTS:
                raise DataError(
                    f"data.labels={self.labels}: path={printable(str(path))} must be a file, label={row.get('label')} "
                    f"one of {', '.join(self.class_names)}, and part={part}, if there is such a column, train, val or "
                    "test"
                )
            parts.setdefault(part, []).append((path, label))
        if 2 * sum(";" in name for name in self.class_names) > len(self.class_names):  # a single name may hold one
            log.warning(
                "data.labels=%s: each combination of labels, such as %s, is a class of its own; where images have "
                "several labels each, use +experiment=several_labels",
                self.labels,
                printable(next(name for name in self.class_names if ";" in name)),
            )
        return parts

    def _label(self, cell: str | None) -> Any:
        """Return what a cell of the CSV makes of a sample; ValueError: it is no label."""
        return self.class_names.index(cell)

    def _classes(self, label: Any) -> Sequence[int]:
        return (label,)

    def _split(self, parts: dict[str, Samples]) -> None:
        """Take for test and val, where they are not there, their shares of what is for training."""
        left = 1.0
        if self.fold is not None:
            parts["train"] = parts.get("train", []) + parts.pop("val", [])
        for name, share in self.shares.items():
            if name not in parts:
                fold = self.fold if name == "val" else None
                parts["train"], parts[name] = split_by_class(
                    parts.get("train", []), share / left, self.split_seed, fold, self.folds
                )
                left -= share
                taken = f"{share:g} of each class" if fold is None else f"fold {fold} of {self.folds}"
                log.info("%s: %s is for %s, %d images", self.source, taken, name, len(parts[name]))

    def _check(self, parts: dict[str, Samples]) -> None:
        for name in PARTS:
            labels = {index for _, label in parts[name] for index in self._classes(label)}
            if not parts[name]:
                raise DataError(
                    f"data.folder={self.folder} leaves no image for {name}; images end in .png, .jpg and the like, and "
                    "lie in a folder that is named after their class"
                )
            lacking = [printable(each) for label, each in enumerate(self.class_names) if label not in labels]
            if lacking:
                log.warning("%s: %s has no image of %s", self.source, name, ", ".join(lacking))


def split_by_class(samples: Samples, share: float, seed: int, fold: int | None, folds: int) -> tuple[Samples, Samples]:
    """Return the samples that stay and those that are taken: of each class a share (not none, not all), or a fold."""
    by_class: dict[int, list[int]] = {}
    for index, (_, label) in enumerate(samples):
        by_class.setdefault(label, []).append(index)
    generator = torch.Generator().manual_seed(seed)
    taken: set[int] = set()
    for _, indices in sorted(by_class.items()):
        count = min(max(1, round(share * len(indices))), len(indices) - 1)
        _, places = split(torch.randperm(len(indices), generator=generator), count, fold, folds)
        taken.update(indices[place] for place in places.tolist())
    kept = [sample for index, sample in enumerate(samples) if index not in taken]
    return kept, [samples[index] for index in sorted(taken)]


def read_transformed(path: Path, transforms: Sequence[Callable], name: str, image_shape: Sequence[int]) -> Tensor:
    """Return (C, H, W) uint8: the image in grey or colour, after `transforms`."""
    with opened(path) as image:
        picture = in_channels(image, image_shape[0])
    try:
        transformed = Compose(transforms)(picture)
        pixels = transformed if isinstance(transformed, Tensor) else pil_to_tensor(transformed)
    except Exception as error:  # as many kinds as there are transforms
        error.add_note(f"data.{name}, of {printable(str(path))}: {picture.width} x {picture.height} pixels")
        raise
    if pixels.dtype != torch.uint8 or tuple(pixels.shape) != tuple(image_shape):
        raise ConfigError(
            f"data.{name} give {list(pixels.shape)} {pixels.dtype} of an image; they must give {list(image_shape)} "
            "torch.uint8, as data.image_shape says: data.mean and data.std come after, on the device"
        )
    return pixels.as_subclass(Tensor)
