"""What classes a folder of images has. Configs ask for it by `${class_names:...}`: nothing heavy here."""

import csv
import json
from pathlib import Path

from omegaconf import OmegaConf
from training_config.errors import ConfigError

PARTS = ("train", "val", "test")


def class_names(folder: str, labels: str | None) -> list[str]:
    """Return the names of the classes, sorted: of the folders that hold their images, or of the labels in a CSV.

    Args:
        folder: holds a folder a class, or train/ (val/, test/) with a folder a class, or shards.
        labels: a CSV with the columns path and label, or None.

    Raises:
        ConfigError: there is no class.
    """
    if labels is not None:
        names = {label for _, label, _ in read_labels(Path(labels))}
    else:
        root = Path(folder)
        if not root.is_dir():
            raise ConfigError(f"data.folder={folder} is no folder; name one with a folder of images for each class")
        if (root / "index.json").is_file():  # of shards
            return json.loads((root / "index.json").read_text(encoding="utf-8"))["class_names"]
        names = set(subfolders(root / "train" if has_parts(root) else root))
    if not names:
        raise ConfigError(f"data.folder={folder} has no classes; put the images of each class into a folder of its own")
    return sorted(names)


def has_parts(root: Path) -> bool:
    """Whether a folder is split into train/ and others already."""
    return (root / "train").is_dir()


def subfolders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def read_labels(table: Path) -> list[tuple[str, str, str]]:
    """Return (path, label, part) of each row; part is train, val, test, or "" where the CSV has no such column.

    Raises:
        ConfigError: no such file, no rows, or a row without what it should have.
    """
    if not table.is_file():
        raise ConfigError(f"data.labels={table} is no file; name a CSV with the columns path and label")
    with table.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark of UTF-8 first
        reader = csv.DictReader(file)
        if not {"path", "label"} <= set(reader.fieldnames or ()):
            raise ConfigError(f"data.labels={table} has the columns {reader.fieldnames}; it needs path and label")
        rows = [(row["path"], row["label"], row.get("part", "")) for row in reader]
    for number, (path, label, part) in enumerate(rows, start=2):
        if not path or not label:
            raise ConfigError(f"data.labels={table}: line {number} has no path or no label")
        if part not in (PARTS if "part" in reader.fieldnames else ("",)):
            raise ConfigError(f"data.labels={table}: part {part!r} in line {number} must be train, val or test")
    if not rows:
        raise ConfigError(f"data.labels={table} has no rows")
    return rows


def register() -> None:
    """Make `${class_names:folder,labels}` and `${count:list}` known to OmegaConf; files are read when a config asks."""
    OmegaConf.register_new_resolver("class_names", class_names, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("count", len, replace=True)
