"""Small wheels for a machine without a package index: downloaded where one answers, installed there where they lack.

python benchmarks/gpu/wheels.py download --python-version 3.12
python benchmarks/gpu/wheels.py install --site <folder>

They are of the project's own lock and of the one that has cookiecutter, with their hashes. Left out is what comes with
torch and torchvision (a machine with a GPU has its own, in the version that fits its driver), what trains nothing, and
this repository's libraries, which lie there as sources.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from email import message_from_bytes
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

TEMPLATE = Path(__file__).parents[2]
WHEELS = Path(__file__).with_name(".wheels")  # ignored by git
LOCKS = (TEMPLATE / "{{cookiecutter.project}}" / "locks" / "base.lock", TEMPLATE / "requirements" / "tools.txt")
LIBRARIES = sorted(TEMPLATE.glob("packages/*/pyproject.toml"))
WITH_TORCH = (
    *("torch", "torchvision", "triton", "cuda-.*", "nvidia-.*", "numpy", "pillow", "sympy", "mpmath", "networkx"),
    *("setuptools", "fsspec", "filelock"),
)
TOOLS = (
    "ruff",
    "uv",
    "pyrefly",
    "pytest",
    "hatchling",
    "editables",
    "pluggy",
    "iniconfig",
    "trove-classifiers",
    "colorama",
)
SOURCE_ONLY = ("antlr4-python3-runtime",)  # nobody has uploaded a wheel of it; it is pure Python
LIMIT = 60 * 2**20  # bytes; 64 MiB travel to the machine that this was written for, the working tree among them
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64"]


def wanted(python_version: str) -> dict[str, str]:
    """Return the lock entries to carry for Linux and a version of Python."""
    target = {"python_version": python_version, "python_full_version": f"{python_version}.3", "sys_platform": "linux"}
    target |= {"platform_machine": "x86_64", "platform_system": "Linux", "os_name": "posix"}
    found: dict[str, str] = {}
    for lock in LOCKS:
        for name, entry in locked(lock, target).items():
            found.setdefault(name, entry)
    ours = [re.escape(path.parent.name) for path in LIBRARIES]
    left_out = re.compile("|".join([*WITH_TORCH, *TOOLS, *ours]))
    return {name: entry for name, entry in found.items() if not left_out.fullmatch(name)}


def locked(lock: Path, target: dict[str, str]) -> dict[str, str]:
    """Return the entries of a lock whose markers hold on the target; a name may stand there once for each Python."""
    from packaging.requirements import Requirement  # the machine with the GPU may lack it

    found = {}
    for entry in re.split(r"\n(?=[a-z0-9])", lock.read_text(encoding="utf-8")):
        if re.match(r"[\w.-]+==", entry):
            parsed = Requirement(entry.partition("\\")[0].partition("#")[0].strip())
            if parsed.marker is None or parsed.marker.evaluate(target):
                found[parsed.name] = entry
    return found


def download(python_version: str) -> int:
    """Fill the folder of wheels; return the exit code."""
    WHEELS.mkdir(exist_ok=True)
    for old in WHEELS.glob("*"):
        old.unlink()
    entries = wanted(python_version)
    binary = WHEELS / "requirements.txt"
    binary.write_text("\n".join(entry for name, entry in entries.items() if name not in SOURCE_ONLY), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    platforms = [part for each in PLATFORMS for part in ("--platform", each)]
    target = ["--only-binary=:all:", "--python-version", python_version, "--implementation", "cp", *platforms]
    common = ["--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "download", *common, *target, "--dest", str(WHEELS), "-r", str(binary)], check=True)
    for name in SOURCE_ONLY:
        source = WHEELS / "source.txt"
        source.write_text(entries[name], encoding="utf-8")
        subprocess.run([*pip, "wheel", *common, "--wheel-dir", str(WHEELS), "-r", str(source)], check=True)
        source.unlink()
    binary.unlink()
    size = sum(path.stat().st_size for path in WHEELS.iterdir())
    print(f"{len(list(WHEELS.iterdir()))} wheels for Python {python_version}, {size / 2**20:.0f} MiB, in {WHEELS}")
    if size > LIMIT:
        print(f"more than {LIMIT / 2**20:.0f} MiB: leave some out in wheels.py", file=sys.stderr)
    return int(size > LIMIT)


def install(site: Path) -> int:
    """Install into `site` the wheels of packages that this Python lacks; 0 also where they do not fit."""
    lacking = to_install({wheel_name(path): path for path in sorted(WHEELS.glob("*.whl"))})
    if not lacking:
        return 0
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    options = ["--no-compile", "--no-cache-dir", "--upgrade", "--target", str(site)]
    print(f"lacking here: {', '.join(sorted(lacking))}", flush=True)
    if subprocess.run([*pip, *options, *map(str, lacking.values())]).returncode != 0:
        print("these wheels do not fit this Python: what needs them will fail", file=sys.stderr)
    return 0


def to_install(wheels: dict[str, Path]) -> dict[str, Path]:
    """Return the wheels of what is not there, and of what is too old for the libraries of a project or for those."""
    chosen: set[str] = {name for name in wheels if installed(name) is None}
    asked = [requirement for path in LIBRARIES for requirement in dependencies(path)]
    while True:
        needs = [*asked, *(need for name in chosen for need in wheel_needs(wheels[name]))]
        further = {name for name, fits in map(parsed, needs) if name in wheels and not fits(installed(name))} - chosen
        if not further:
            return {name: wheels[name] for name in chosen}
        chosen |= further


def parsed(need: str) -> tuple[str, Callable[[str | None], bool]]:
    """Return the name in a requirement, and whether a version meets it; one for other machines is always met."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    requirement = Requirement(need)
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return "", lambda version: True
    specifier = requirement.specifier
    return canonicalize_name(requirement.name), lambda here: here is not None and specifier.contains(here, True)


def dependencies(path: Path) -> list[str]:
    return tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]


def wheel_needs(path: Path) -> list[str]:
    with ZipFile(path) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(wheel.read(name)).get_all("Requires-Dist", [])


def wheel_name(path: Path) -> str:
    return re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("download").add_argument("--python-version", default="3.12", help="of the machine with the GPU")
    commands.add_parser("install").add_argument("--site", type=Path, required=True)
    arguments = parser.parse_args()
    sys.exit(download(arguments.python_version) if arguments.command == "download" else install(arguments.site))
