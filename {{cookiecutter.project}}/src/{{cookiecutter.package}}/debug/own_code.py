"""Which files are the project's own code and not a library's, Python's or these checks', and how they are shown."""

import os
import sys
import sysconfig
from pathlib import Path

# A library is where pip or the system put it, which is not always in the environment that runs: one may see another's.
INSTALLED = {"site-packages", "dist-packages"}
STANDARD_LIBRARY = tuple(f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("stdlib", "platstdlib"))
CHECKS = f"{Path(__file__).parent}{os.sep}"


def is_installed(file: str) -> bool:
    """Whether a file is a library's or Python's."""
    return file.startswith(("<", *STANDARD_LIBRARY)) or not INSTALLED.isdisjoint(Path(file).parts)


def is_own(file: str) -> bool:
    """Whether a file is the project's."""
    return not is_installed(file) and not file.startswith(CHECKS)


def shorten(file: str | Path) -> str:
    """Return a path as seen from the working directory, or from the folder of libraries that it lies in."""
    path = Path(file)
    libraries = (folder for folder in sys.path if not INSTALLED.isdisjoint(Path(folder).parts))
    folders = (Path.cwd(), *libraries, *STANDARD_LIBRARY)
    inside = next((folder for folder in folders if path.is_relative_to(folder)), None)
    return str(path if inside is None else path.relative_to(inside))
