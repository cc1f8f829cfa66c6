"""The libraries build and work by themselves; a project has them as three wheels, and takes nobody else's."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from sharing import share_packages

PACKAGES = ("training-config", "training-runs", "training-checklist")
MODULES = tuple(name.replace("-", "_") for name in PACKAGES)
TEMPLATE = Path(__file__).parents[1]
FOREIGN = TEMPLATE / "tests/foreign_project"
SHORT = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "++trainer.limit_train_batches=2")
WHERE = f"import {', '.join(MODULES)}; print(*({', '.join(f'{name}.__file__' for name in MODULES)}), sep='\\n')"


def succeeded(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def files(folder: Path) -> set[str]:
    """What lies in a src/, without what Python leaves there."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def content(wheel: Path) -> set[str]:
    """What a wheel installs, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def generated(generate, tmp_path_factory) -> Path:
    """A project that is copied before anything is built in it."""
    return generate(tmp_path_factory.mktemp("generated"))


@pytest.fixture
def folder(generated, tmp_path) -> Path:
    return shutil.copytree(generated, tmp_path / "project")


@pytest.fixture(scope="module")
def wheels(generated) -> dict[str, Path]:
    """The wheel of each library that a project carries, by its name."""
    found = {name: [*(generated / "wheels").glob(f"{name.replace('-', '_')}-*.whl")] for name in PACKAGES}
    assert sum(map(len, found.values())) == len([*(generated / "wheels").iterdir()])
    return {name: wheel for name, [wheel] in found.items()}


def test_wheels_are_what_the_sources_give_to_the_byte():
    command = [sys.executable, TEMPLATE / "packages/wheels.py", "--check"]
    succeeded(subprocess.run(command, capture_output=True, encoding="utf-8"))


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_of_a_library_holds_all_its_files_and_its_license(wheels, name):
    assert content(wheels[name]) == files(TEMPLATE / "packages" / name / "src")
    with zipfile.ZipFile(wheels[name]) as archive:
        assert [each for each in archive.namelist() if each.endswith(".dist-info/licenses/LICENSE")]


@pytest.fixture(scope="module")
def foreign(install, wheels, tmp_path_factory):
    """A project that has nothing of ours but the checklist and what it needs, installed from wheels."""
    folder = shutil.copytree(FOREIGN, tmp_path_factory.mktemp("foreign") / "project")
    return install(folder, wheels["training-config"], wheels["training-checklist"])


def verdict(project) -> dict:
    """The only item in the newest report."""
    newest = max(project.folder.glob("outputs/**/debug/report.json"), key=lambda path: path.stat().st_mtime_ns)
    [item] = json.loads(newest.read_text(encoding="utf-8"))["items"]
    return item


def test_checklist_from_a_wheel_judges_a_project_that_has_nothing_else_of_ours(foreign):
    assert "site-packages" in succeeded(foreign.run("-c", "import training_checklist as it; print(it.__file__)"))
    assert foreign.run("-c", "import training_runs").returncode == 1
    succeeded(foreign.run("train.py", "+checklist=fast_dev_run"))
    assert (verdict(foreign)["item"], verdict(foreign)["verdict"]) == ("fast_dev_run", "passed")


def test_checklist_from_a_wheel_finds_a_planted_fault_and_ends_with_one(foreign):
    net = foreign.folder / "net.py"
    sound = net.read_text(encoding="utf-8")
    net.write_text(
        sound.replace("return nn.functional.mse_loss(", "return torch.nan * nn.functional.mse_loss("), "utf-8"
    )
    finished = foreign.run("train.py", "+checklist=fast_dev_run")
    net.write_text(sound, encoding="utf-8")
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert verdict(foreign)["verdict"] == "failed"
    assert "the first loss is nan" in finished.stdout


def test_checklist_from_a_wheel_runs_items_in_a_foreign_project_and_is_no_group_of_it(foreign):
    assert "overfit" not in succeeded(foreign.run("train.py", "--help"))
    items = "hydra.callbacks.debug.only=[config,trace,gradients]"
    printed = succeeded(foreign.run("train.py", "+checklist=all", items))
    assert all(re.search(rf"^│ +{item} +│ +passed", printed, re.MULTILINE) for item in ("config", "trace", "gradients"))


def test_projects_own_wheel_holds_its_own_package_and_nothing_else(folder, wheel):
    assert content(wheel(folder)) == files(folder / "src")


def test_project_trains_after_another_in_the_same_environment_was_uninstalled(
    generate, install, wheels, wheel, tmp_path
):
    stays, goes = (generate(tmp_path / name, project=name, package=name.replace("-", "_")) for name in ("one", "two"))
    own = [wheel(shutil.copytree(folder, tmp_path / "built" / folder.name)) for folder in (stays, goes)]
    project = install(stays, *wheels.values(), *own)
    assert project.run("-c", "import one, two").returncode == 0
    pip("--python", project.python, "uninstall", "--yes", "two")
    assert project.run("-c", "import two").returncode == 1
    succeeded(project.run("train.py", *SHORT))


def test_editable_installation_beside_the_wheels_gives_a_project_that_trains(folder, install, wheels):
    project = install(folder, "--editable", folder, *wheels.values())
    assert all("site-packages" in place for place in succeeded(project.run("-c", WHERE)).split())
    succeeded(project.run("train.py", *SHORT, "+debug=fast_dev_run"))


# Nobody else's package of the same name.

NEWER = {name: ("0.2.0", "0.2.1", "99.0") for name in PACKAGES}


def pip(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run pip in `folder`, without the settings of whoever runs the tests."""
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=without_settings(), capture_output=True, encoding="utf-8")


def without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "VIRTUAL_"))}


def stub(folder: Path, name: str, version: str) -> None:
    """Put a wheel without content into the index in `folder`; whoever imports a stranger's fails."""
    module = name.lower().replace("-", "_")
    place = folder / name.lower()
    place.mkdir(parents=True, exist_ok=True)
    info = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(place / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    links = [f'<a href="{path.name}">{path.name}</a>' for path in sorted(place.glob("*.whl"))]
    (place / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>", encoding="utf-8")


def requirements(pyproject: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and, for each, a version that will do, of everything that a pyproject.toml may ask for."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    for each in chain(project["dependencies"], *project.get("optional-dependencies", {}).values()):
        name, condition, number = re.match(r"([\w.-]+)([<>=]*)([\d.]*)", each).groups()
        yield name, "1.9" if condition == "<" else number or "1.0"


@pytest.fixture(scope="module")
def index(generated, tmp_path_factory) -> str:
    """The address of a package index with strangers' packages under our names, and a stub of all that is needed."""
    folder = tmp_path_factory.mktemp("index")
    for name, versions in NEWER.items():
        for version in versions:
            stub(folder, name, version)
    asked = [generated / "pyproject.toml", *TEMPLATE.glob("packages/*/pyproject.toml")]
    for name, version in {pair for path in asked for pair in requirements(path) if pair[0] not in PACKAGES}:
        stub(folder, name, version)
    return folder.as_uri()


@pytest.fixture
def python(tmp_path) -> Path:
    """A fresh environment with all that the project needs, but none of ours."""
    venv.create(tmp_path / "venv", with_pip=False)
    return share_packages(tmp_path / "venv")


def installed(python: Path) -> dict[str, str]:
    """Return the versions of our libraries in an environment."""
    listed = json.loads(succeeded(pip("--python", python, "list", "--format", "json")))
    return {each["name"]: each["version"] for each in listed if each["name"] in PACKAGES}


@pytest.fixture
def ours(wheels) -> dict[str, str]:
    return {name: wheel.name.split("-")[1] for name, wheel in wheels.items()}


@pytest.mark.parametrize("form", ["editable", pytest.param("wheel", marks=pytest.mark.slow)])
def test_pip_takes_ours_from_the_project_whatever_an_index_offers(folder, wheel, index, python, ours, form):
    what = ["--no-build-isolation", "--editable", "."] if form == "editable" else [wheel(folder)]
    command = ["--python", python, "install", "--index-url", index]
    succeeded(pip(*command, "--find-links", "wheels", *what, folder=folder))
    assert installed(python) == ours


@pytest.mark.parametrize("form", ["editable", "wheel"])
def test_pip_without_the_projects_wheels_refuses_instead_of_taking_a_strangers(folder, wheel, index, python, form):
    what = ["--no-build-isolation", "--editable", "."] if form == "editable" else [wheel(folder)]
    finished = pip("--python", python, "install", "--index-url", index, *what, folder=folder)
    assert finished.returncode == 1
    assert re.search(r"No matching distribution found for training-\w+==0\.2\.0\+src", finished.stderr)
    assert installed(python) == {}


@pytest.mark.parametrize("lock", sorted(TEMPLATE.glob("*/locks/*.lock")), ids=lambda path: path.stem)
def test_lock_names_every_package_once_and_holds_nothing_else(lock):
    first, *lines = filter(None, lock.read_text(encoding="utf-8").splitlines())
    assert first == "--find-links wheels"
    named = [line for line in lines if not re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)]
    assert all(re.fullmatch(r"[\w.-]+==\S+( ; .*)? \\", line) for line in named), named
    assert len({line.partition(" \\")[0] for line in named}) == len(named)


def test_locked_hashes_take_ours_from_the_project(folder, index, python, ours):
    lock = (folder / "requirements.lock").read_text(encoding="utf-8")
    assert lock.startswith("--find-links wheels\n")
    entries = re.findall(r"^training-[\w-]+==.* \\\n    --hash=.*\n", lock, re.MULTILINE)
    (folder / "ours.lock").write_text("--find-links wheels\n" + "".join(entries), encoding="utf-8")
    command = ("--python", python, "install", "--index-url", index, "--require-hashes", "--no-deps")
    succeeded(pip(*command, "-r", "ours.lock", folder=folder))
    assert installed(python) == ours


def test_uv_sync_takes_ours_from_the_project(folder, index, ours, tmp_path):
    settings = {"UV_DEFAULT_INDEX": index, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON": sys.executable}
    command = [sys.executable, "-m", "uv", "sync", "--no-install-project", "--no-python-downloads"]
    environment = without_settings() | settings
    succeeded(subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8"))
    [python] = folder.glob(".venv/bin/python")
    assert installed(python) == ours
