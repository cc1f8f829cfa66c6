"""YAML files that anybody may have written, read as data and within bounds."""

import re
from pathlib import Path
from typing import Any

import yaml

# OmegaConf's own reads numbers otherwise, but takes ten times as long.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ALIAS = re.compile(r"(?:^|[\s\[{,:-])\*\w", re.MULTILINE)
# Values of a file with aliases: ten times as many as the largest config of a project has. OmegaConf copies each, twenty
# thousand in a second, so that ten lines that name one another could keep it busy for years.
MOST = 10_000


def read_plain(path: Path) -> Any:
    """Return what a YAML file holds, as plain data; interpolations are text.

    Raises:
        OSError, ValueError, yaml.YAMLError: it cannot be read, is no UTF-8, no YAML, or more than `check_size` allows.
    """
    text = path.read_text(encoding="utf-8")
    check_size(text)
    return yaml.load(text, Loader=LOADER)


def check_size(text: str) -> None:
    """Refuse a text that is more values than `MOST` when each alias (`*name`) is replaced by what it stands for.

    Raises:
        ValueError: it is, or an alias stands for what it is in.
    """
    if ALIAS.search(text) is not None and size(yaml.compose(text, Loader=LOADER), {}) > MOST:
        raise ValueError(f"its aliases (*name) make more than {MOST:,} values of it, or lead back to themselves")


def size(node: Any, known: dict[int, float]) -> float:
    if id(node) not in known:
        known[id(node)] = float("inf")  # while it is not known: of what an alias leads back to
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        known[id(node)] = 1 + sum(size(each, known) for part in parts for each in as_nodes(part))
    return known[id(node)]


def as_nodes(part: Any) -> tuple[Any, ...]:
    return part if isinstance(part, tuple) else (part,)  # of a mapping: key and value
