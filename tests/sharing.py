"""Virtual environments that have the packages of this one, without a second copy of any."""

import sysconfig
from pathlib import Path


def share_packages(environment: Path, *folders: Path) -> Path:
    """Let a virtual environment import this one's packages, and what lies in `folders`; return its Python."""
    # Scheme "venv": elsewhere than the default on some Linux distributions.
    paths = sysconfig.get_paths("venv", vars={"base": str(environment), "platbase": str(environment)})
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    lines = [*sorted(packages), *map(str, folders)]
    Path(paths["purelib"], "shared.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Path(paths["scripts"], "python")
