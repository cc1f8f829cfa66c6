"""Build the libraries into the wheels that every generated project carries, and pin them there.

python packages/wheels.py            wheels/, pyproject.toml and the locks of the project
python packages/wheels.py --check    exit code 1 where these are not what the sources give

A carried wheel has the library's version with a local label, 0.2.0+src5f3a9c1b24. The label is made from the files of
the library, so that an environment sees a new version whenever one of them has changed. And PyPI takes no upload with
a local label (PEP 440, "Local version identifiers"): what is pinned so can come from the project's folder alone.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent
PROJECT = PACKAGES.parent / "{{cookiecutter.project}}"
NAMES = ("training-config", "training-runs", "training-checklist")
# What a wheel is made of; tests, docs and the changelog stay here.
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src")
# The time of every file in an archive: the earliest that ZIP can say, so that builds of any day give the same bytes.
EPOCH = "315532800"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        wheels = [build(name, Path(scratch)) for name in NAMES]
        if arguments == ["--check"]:
            return stale(wheels)
        carry(wheels)
    return 0


def build(name: str, folder: Path) -> Path:
    """Build one library; return its wheel, which lies in `folder`."""
    copy = folder / name
    copy.mkdir()
    for part in PARTS:
        source = PACKAGES / name / part
        if source.is_dir():
            shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(source, copy / part)
    pyproject = copy / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    text = re.sub(r'^version = "(.*)"$', rf'version = "\1+{label(copy)}"', text, count=1, flags=re.MULTILINE)
    pyproject.write_text(text, encoding="utf-8", newline="\n")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    built = subprocess.run(command, cwd=copy, env=environment, capture_output=True, encoding="utf-8")
    if built.returncode != 0:
        sys.exit(built.stdout + built.stderr)
    [wheel] = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel


def label(folder: Path) -> str:
    """Return a label that changes with the name or the content of any file in `folder`."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256(path)}\0".encode())
    return f"src{digest.hexdigest()[:10]}"  # with a letter first: PEP 440 takes zeros away from a label of digits


def stale(wheels: list[Path]) -> int:
    """Say what in the project is not what was built; return the exit code."""
    built = {wheel.name: wheel.read_bytes() for wheel in wheels}
    carried = {path.name: path.read_bytes() for path in (PROJECT / "wheels").glob("*.whl")}
    wrong = [f"wheels/{name}" for name in sorted(built.keys() | carried.keys()) if built.get(name) != carried.get(name)]
    wrong += [path.name for path, text in pinned(wheels).items() if path.read_text(encoding="utf-8") != text]
    if wrong:
        print(f"not what packages/ gives: {', '.join(wrong)}; run make wheels and commit", file=sys.stderr)
    return 1 if wrong else 0


def carry(wheels: list[Path]) -> None:
    """Replace the wheels in the project, and their versions and hashes where it pins them."""
    folder = PROJECT / "wheels"
    for old in folder.glob("*.whl"):
        old.unlink()
    for wheel in wheels:
        shutil.copy(wheel, folder)
    for path, text in pinned(wheels).items():
        path.write_text(text, encoding="utf-8", newline="\n")


def pinned(wheels: list[Path]) -> dict[Path, str]:
    """Return the texts of pyproject.toml and the locks with the versions and hashes of these wheels."""
    texts = {path: path.read_text(encoding="utf-8") for path in (PROJECT / "pyproject.toml", *locks())}
    for wheel in wheels:
        name, version = wheel.name.replace("_", "-").split("-py3-")[0].rsplit("-", 1)
        for path, text in texts.items():
            text = re.sub(rf'(?<="{name}==)[^"]+(?=")', version, text)
            locked = rf"{name}=={version} \\\n    --hash=sha256:{sha256(wheel)}\n"
            texts[path] = re.sub(rf"^{name}==\S+ \\\n    --hash=sha256:\w+\n", locked, text, flags=re.MULTILINE)
    return texts


def locks() -> list[Path]:
    return sorted((PROJECT / "locks").glob("*.lock"))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
