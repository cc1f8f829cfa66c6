"""Which files are the project's own code, and how they are shown.

Not its own are libraries, Python's own modules, and what comes with the project beside its code: these checks and the
packages that they share a template with, which are not always where pip puts things.
"""

import os
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

# A library is where pip or the system put it, which is not always in the environment that runs: one may see another's.
INSTALLED = {"site-packages", "dist-packages"}
STANDARD_LIBRARY = tuple(f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("stdlib", "platstdlib"))


def folders(*packages: str) -> tuple[str, ...]:
    specs = (find_spec(name) for name in packages)
    return tuple(f"{folder}{os.sep}" for spec in specs if spec for folder in spec.submodule_search_locations or ())


CHECKS = folders("training_checklist")
BESIDE = folders("training_checklist", "training_config", "training_runs")


def is_installed(file: str) -> bool:
    """Whether a file is a library's or Python's."""
    return file.startswith(("<", *STANDARD_LIBRARY)) or not INSTALLED.isdisjoint(Path(file).parts)


def is_own(file: str) -> bool:
    """Whether a file is the project's."""
    return not is_installed(file) and not file.startswith(BESIDE)


def is_of_checks(file: str) -> bool:
    """Whether a file is of this package."""
    return file.startswith(CHECKS)


def shorten(file: str | Path) -> str:
    """Return a path as seen from the working directory, or from the folder of libraries that it lies in."""
    path = Path(file)
    libraries = (folder for folder in sys.path if not INSTALLED.isdisjoint(Path(folder).parts))
    inside = (Path.cwd(), *libraries, *STANDARD_LIBRARY)
    folder = next((folder for folder in inside if path.is_relative_to(folder)), None)
    return str(path if folder is None else path.relative_to(folder))
