"""What classes a folder of images has. Configs ask for it by `${class_names:...}`: nothing heavy here."""

import csv
from pathlib import Path

from omegaconf import OmegaConf
from training_config.errors import ConfigError


def class_names(folder: str, labels: str | None, separator: str | None = None) -> list[str]:
    """Return the names of the classes, sorted: of the folders in `folder` or its train/, or of the labels in a CSV.

    A cell holds one label, or several with a `separator` between them.

    Raises:
        ConfigError: there is no class.
    """
    if labels is not None:
        with open(labels, newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark of UTF-8 first
            cells = [row.get("label") or "" for row in csv.DictReader(file)]
        names = {name for cell in cells for name in (cell.split(separator) if separator else [cell])} - {""}
    elif Path(folder).is_dir():
        names = subfolders(Path(folder, "train") if Path(folder, "train").is_dir() else Path(folder), Path(folder))
    else:
        raise ConfigError(f"data.folder={folder} is no folder; name one with a folder of images for each class")
    if not names:
        raise ConfigError(f"data.folder={folder} has no classes; put the images of each class into a folder of its own")
    return sorted(names)


def subfolders(folder: Path, root: Path) -> list[str]:
    """Return the names of the folders in `folder`, sorted; a link that leads out of `root` is refused."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not all(path.resolve().is_relative_to(root.resolve()) for path in (folder, *found)):
        raise ConfigError(f"a link in {folder} leads out of data.folder={root}; copy what it leads to, or remove it")
    return [path.name for path in found]


def register() -> None:
    """Make `${class_names:folder,labels}` and `${count:list}` known to OmegaConf; files are read when a config asks."""
    OmegaConf.register_new_resolver("class_names", class_names, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("count", len, replace=True)
