"""The libraries in packages/ build, install and work by themselves, and a project carries them."""

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

PACKAGES = ("training-config", "training-runs", "training-checklist")
MODULES = tuple(name.replace("-", "_") for name in PACKAGES)
FOREIGN = Path(__file__).parent / "foreign_project"
SHORT = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "++trainer.limit_train_batches=2")
WHERE = f"import {', '.join(MODULES)}; print(*({', '.join(f'{name}.__file__' for name in MODULES)}), sep='\\n')"


def succeeded(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def files(folder: Path) -> set[str]:
    """What lies in a package's src/, without what Python leaves there."""
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
    """A project whose folders are copied before anything is built in them."""
    return generate(tmp_path_factory.mktemp("carried"))


@pytest.fixture
def folder(generated, tmp_path) -> Path:
    return shutil.copytree(generated, tmp_path / "project")


@pytest.fixture(scope="module")
def wheels(generated, wheel, tmp_path_factory) -> dict[str, Path]:
    """The wheel of each package, by its name."""
    copy = shutil.copytree(generated / "packages", tmp_path_factory.mktemp("sources") / "packages")
    return {name: wheel(copy / name) for name in PACKAGES}


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_of_a_package_holds_all_its_files_and_nothing_else(wheels, generated, name):
    assert content(wheels[name]) == files(generated / "packages" / name / "src")


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
    succeeded(foreign.run("train.py", "+debug=fast_dev_run"))
    assert (verdict(foreign)["item"], verdict(foreign)["verdict"]) == ("fast_dev_run", "passed")


def test_checklist_from_a_wheel_finds_a_planted_fault_and_ends_with_one(foreign):
    net = foreign.folder / "net.py"
    sound = net.read_text(encoding="utf-8")
    net.write_text(
        sound.replace("return nn.functional.mse_loss(", "return torch.nan * nn.functional.mse_loss("), "utf-8"
    )
    finished = foreign.run("train.py", "+debug=fast_dev_run")
    net.write_text(sound, encoding="utf-8")
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert verdict(foreign)["verdict"] == "failed"
    assert "the first loss is nan" in finished.stdout


def test_checklist_from_a_wheel_is_listed_by_help_and_runs_items_in_a_foreign_project(foreign):
    listed = next(line for line in succeeded(foreign.run("train.py", "--help")).splitlines() if line[:6] == "debug:")
    assert {"checklist", "fast_dev_run", "overfit"} <= set(re.findall(r"\w+", listed))
    items = "hydra.callbacks.debug.only=[config,trace,gradients]"
    printed = succeeded(foreign.run("train.py", "+debug=checklist", items))
    assert all(re.search(rf"^│ +{item} +│ +passed", printed, re.MULTILINE) for item in ("config", "trace", "gradients"))


@pytest.mark.slow
def test_editable_installation_alone_gives_a_project_that_trains(folder, install):
    project = install(folder, "--editable", folder)
    places = succeeded(project.run("-c", WHERE)).split()
    assert places == [
        str(folder / "packages" / name / "src" / module / "__init__.py")
        for name, module in zip(PACKAGES, MODULES, strict=True)
    ]
    succeeded(project.run("train.py", *SHORT))
    succeeded(project.run("train.py", *SHORT, "+debug=fast_dev_run"))


@pytest.mark.slow
def test_project_without_the_checklist_installs_and_trains(folder, install):
    shutil.rmtree(folder / "packages" / "training-checklist")
    project = install(folder, "--editable", folder)
    assert project.run("-c", "import training_checklist").returncode == 1
    succeeded(project.run("train.py", *SHORT))


def test_projects_own_wheel_carries_the_libraries(folder, wheel):
    carried = content(wheel(folder))
    sources = [files(folder / "packages" / name / "src") for name in PACKAGES] + [files(folder / "src")]
    assert carried == set().union(*sources)


@pytest.mark.slow
def test_project_works_with_published_libraries_in_the_place_of_its_packages(folder, install, wheels):
    shutil.rmtree(folder / "packages")
    project = install(folder, "--editable", folder, *wheels.values())
    assert all("site-packages" in place for place in succeeded(project.run("-c", WHERE)).split())
    succeeded(project.run("train.py", *SHORT, "+debug=fast_dev_run"))
    succeeded(project.run("-m", "pytest", "-q", "tests/test_configs.py"))
