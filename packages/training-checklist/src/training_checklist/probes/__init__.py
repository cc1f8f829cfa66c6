"""Every probe, in a file of its own below a folder of its topic: probes/network/one_output.py holds PROBE.

A file that is put here is found by itself. Nothing here imports one before it is asked for.
"""

import ast
import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

from training_checklist.probe import ITEMS, Probe


class Heading(NamedTuple):
    """What a probe asks, and the item that asks it."""

    id: str
    item: str
    question: str


@cache
def names() -> dict[str, str]:
    """Return the module of each probe, by its id."""
    [root] = __path__
    return {
        f"{topic.name}/{each.name.replace('_', '-')}": f"{__name__}.{topic.name}.{each.name}"
        for topic in sorted(Path(root).iterdir())
        if topic.is_dir()
        for each in pkgutil.iter_modules([str(topic)])
    }


def load(name: str) -> Probe:
    """Return the probe of an id."""
    return importlib.import_module(names()[name]).PROBE


def heading(name: str) -> Heading:
    """Return the heading of the probe of an id, as its file has it, which is not imported."""
    topic, _, file = name.partition("/")
    tree = ast.parse(Path(__path__[0], topic, f"{file.replace('-', '_')}.py").read_bytes())
    values = [
        each.value for each in tree.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "PROBE"
    ]
    said = {each.arg: each.value.value for each in values[0].keywords if isinstance(each.value, ast.Constant)}
    return Heading(name, said.get("item", ITEMS.get(topic, topic)), said["question"])


def of_topics(*topics: str) -> list[Probe]:
    """Return the probes of some topics, of which each may be a topic, "network", or a probe of one."""
    return [load(name) for name in names() if name in topics or name.partition("/")[0] in topics]
