"""Every probe, in a file of its own below a folder of its topic: probes/network/one_output.py holds PROBE.

A file that is put here is found by itself. Nothing here imports one before it is asked for.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from training_checklist.probe import Probe


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


def of_topics(*topics: str) -> list[Probe]:
    """Return the probes of some topics, of which each may be a topic, "network", or a probe of one."""
    return [load(name) for name in names() if name in topics or name.partition("/")[0] in topics]
