"""Images of any size in folders, decoded when they are asked for."""

import hashlib
import json
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from training_config.errors import ConfigError
from training_config.values import Fraction
from training_runs.errors import DataError
from training_runs.sampling.seeded_dataset import SeededDataset

from ..class_folders import PARTS, has_parts, read_labels, subfolders
from ..file_names import printable
from .channel_statistics import channel_statistics, write_whole
from .image_files import ImageFiles, find_images
from .transformed_images import TransformedImages

log = logging.getLogger(__name__)

Samples = list[tuple[Path, int]]


class ImageFolderDataModule(TransformedImages):
    """Images in `folder`: `train/<class>/...`, `val/` and `test/` likewise, or `<class>/...`, or what a CSV lists.

    Where there is no val or test, a share of each class's other images is taken for it: by `split_seed` and the sorted
    paths, so that it is the same on every machine.

    Args:
        folder: where the images are.
        labels: None, or a CSV with the columns path (relative to `folder`), label, and maybe part (train, val, test).
        val_share: of each class's images (those in train/ where test/ is there), at least one.
        test_share: likewise.
        split_seed: chooses which ones. Apart from `seed`, so that runs with different seeds share a validation set.
        cache_dir: keeps the mean and deviation that auto asks for, computed over the training images as evaluation
            sees them; may be deleted at any time.
        **images: as of `TransformedImages`.
    """

    def __init__(
        self,
        folder: str,
        labels: str | None,
        val_share: Fraction,
        test_share: Fraction,
        split_seed: int,
        cache_dir: str,
        **images: Any,
    ) -> None:
        super().__init__(**images)
        if val_share + test_share >= 1:
            raise ConfigError(f"data.val_share={val_share} + data.test_share={test_share} must be less than 1")
        self.folder = Path(folder)
        self.labels = None if labels is None else Path(labels)
        self.val_share, self.test_share, self.split_seed = val_share, test_share, split_seed
        self.cache_dir = Path(cache_dir)

    @property
    def source(self) -> str:
        return self.folder.resolve().name

    def prepare_data(self) -> None:
        if self.predict_files is None:
            self._find_statistics()  # by one process of each machine

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if hasattr(self, "train_set") or self.predict_files is not None:
            return
        self._find_statistics()
        parts = self.parts()
        self.train_set = SeededDataset(parts["train"], self.seed)
        self.val_set, self.test_set = parts["val"], parts["test"]

    def parts(self) -> dict[str, ImageFiles]:
        """Return the images of train, val and test."""
        reads = {"train": self.load_train_image, "val": self.load_image, "test": self.load_image}
        parts = {}
        for name, samples in self._find().items():
            paths, labels = zip(*samples, strict=True)
            parts[name] = ImageFiles(paths, labels, reads[name], self.folder)
        return parts

    def _find(self) -> dict[str, Samples]:
        """Return the samples of train, val and test.

        Raises:
            DataError: one of them has none, or a class that is not in train.
        """
        if not hasattr(self, "_parts"):
            self._parts = self._split(self._listed() if self.labels is not None else self._in_folders())
            for name in PARTS:
                self._check(name)
        return self._parts

    def _in_folders(self) -> dict[str, Samples]:
        if not self.folder.is_dir():
            raise DataError(f"data.folder={self.folder} is no folder")
        if not has_parts(self.folder):
            return {"train": self._of_classes(self.folder)}
        return {name: self._of_classes(self.folder / name) for name in PARTS if (self.folder / name).is_dir()}

    def _of_classes(self, folder: Path) -> Samples:
        unknown = set(subfolders(folder)) - set(self.class_names)
        if unknown:
            raise DataError(
                f"{printable(str(folder))} has a folder {printable(sorted(unknown)[0])}, which is none of the classes "
                f"{', '.join(self.class_names)}: remove it, or train on such images too"
            )
        return [(path, label) for label, name in enumerate(self.class_names) for path in find_images(folder / name)]

    def _listed(self) -> dict[str, Samples]:
        parts: dict[str, Samples] = {}
        for path, label, part in sorted(read_labels(self.labels)):
            if label not in self.class_names:
                raise DataError(f"data.labels={self.labels}: {label} is none of {', '.join(self.class_names)}")
            parts.setdefault(part or "train", []).append((self.folder / path, self.class_names.index(label)))
        missing = [path for samples in parts.values() for path, _ in samples if not path.is_file()]
        if missing:
            raise DataError(
                f"data.labels={self.labels}: {len(missing)} of the images are not there, the first is "
                f"{printable(str(missing[0]))}"
            )
        return parts

    def _split(self, parts: dict[str, Samples]) -> dict[str, Samples]:
        train, left = parts.get("train", []), 1.0
        for name, share in (("test", self.test_share), ("val", self.val_share)):
            if name not in parts:
                train, parts[name] = split_by_class(train, share / left, self.split_seed)
                left -= share
                log.info(
                    "%s: a share of %g of each class is for %s, %d images", self.source, share, name, len(parts[name])
                )
        return parts | {"train": train}

    def _check(self, name: str) -> None:
        counts = torch.bincount(torch.tensor([label for _, label in self._parts[name]], dtype=torch.int64))
        if not counts.sum():
            raise DataError(f"data.folder={self.folder} leaves no image for {name}; {ENDINGS}")
        counts = [*counts.tolist(), *[0] * (self.num_classes - len(counts))]
        lacking = [self.class_names[label] for label, count in enumerate(counts) if not count]
        if lacking:
            log.warning("%s: %s has no image of %s", self.source, name, ", ".join(map(printable, lacking)))

    def fingerprint(self) -> str:
        """Return a key that changes with the names of the images, their labels and their parts."""
        parts = self._find()
        listed = [(name, os.path.relpath(path, self.folder), label) for name in PARTS for path, label in parts[name]]
        return hashlib.sha256(repr(listed).encode(errors="surrogateescape")).hexdigest()

    def _find_statistics(self) -> None:
        """Set mean and standard deviation: from the cache, or computed and written to it."""
        if self.statistics is not None:
            return
        paths, labels = zip(*self._find()["train"], strict=True)
        cached = self.cache_dir / f"statistics-{self._content(paths)}.json"
        if cached.is_file():
            content = json.loads(cached.read_text(encoding="utf-8"))
        else:
            log.info("Computing mean and standard deviation of %d training images, once; %s", len(paths), cached)
            mean, std = channel_statistics(self._loader(ImageFiles(paths, labels, self.load_image), sampler=None))
            content = {"folder": str(self.folder), "images": len(paths), "mean": mean, "std": std}
            write_whole(cached, json.dumps(content) + "\n")
        self.use_statistics(content["mean"], content["std"])

    def _content(self, paths: Sequence[Path]) -> str:
        """Return a key that changes with the training images (name, size, time of change) and how they are read."""
        key = hashlib.sha256(re.sub(r" at 0x\w+", "", repr(self.load_image)).encode())
        for path in paths:
            about = path.stat() if path.exists() else None
            key.update(repr((str(path), about and (about.st_size, about.st_mtime_ns))).encode(errors="surrogateescape"))
        return key.hexdigest()[:32]


ENDINGS = "images end in .png, .jpg and the like, and lie in a folder that is named after their class"


def split_by_class(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """Return the samples that stay and those that are taken: of each class a share, at least one, never all."""
    by_class: dict[int, list[int]] = {}
    for index, (_, label) in enumerate(samples):
        by_class.setdefault(label, []).append(index)
    generator = torch.Generator().manual_seed(seed)
    taken: set[int] = set()
    for _, indices in sorted(by_class.items()):
        count = min(max(1, round(share * len(indices))), len(indices) - 1)
        taken.update(indices[place] for place in torch.randperm(len(indices), generator=generator)[:count].tolist())
    kept = [sample for index, sample in enumerate(samples) if index not in taken]
    return kept, [samples[index] for index in sorted(taken)]
