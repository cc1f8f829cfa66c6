"""Every command that a README or a page of docs/ shows works as it is written; the Korean ones show the same."""

import re
import shlex
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
from documentation import blocks
from PIL import Image
from torchvision.models import resnet18

TEMPLATE = Path(__file__).parents[1]
PROJECT = TEMPLATE / "{{cookiecutter.project}}"
READMES = {"template": TEMPLATE / "README.md", "project": PROJECT / "README.md"} | {
    f"docs/{page.stem}": page for page in sorted((PROJECT / "docs").glob("*.md"))
}
# Followed in test_recipes.py, or where it is said.
RECIPES = (
    "data=cifar10",
    "model=resnet18",
    "criterion=focal",
    "model=autoencoder",
    "+experiment=language_model",
    "+experiment=my_images",
    "model=cnn_f1",
    "data=cifar10_flipped",
    "optimizer=lion",
    "+debug=dead_units",
    "examples.channel_statistics",
    "examples.shards",
    "data=shards",
)

# Appended where the command does not say otherwise: seconds instead of minutes, and no download.
SHORT = {
    "data": "data=mnist_sample",
    "trainer.max_epochs": "trainer.max_epochs=1",
    "trainer.limit_train_batches": "++trainer.limit_train_batches=2",
}
# Experiments with data of their own.
OWN_DATA = [
    f"+experiment={name}" for name in ("tabular_regression", "text_classifier", "segmentation", "several_labels", "gan")
]
SHORTER = {"hydra.sweeper.n_trials=20": "hydra.sweeper.n_trials=2", "4": "2"}
# What trains nothing, or goes on with what has been trained.
UNSHORTENED = ("eval.py", "--help", "--cfg", "rerun", "resume", "training_checklist", "-c")
CHECKLIST = "hydra.callbacks.debug.only=[config,trace]"


def commands(readme: str) -> list[list[str]]:
    text = READMES[readme].read_text(encoding="utf-8")
    return [command for block in blocks(text) for command in block.commands]


def of(*programs: str) -> list[list[str]]:
    """The different commands of all pages that start one of `programs`, without those of the recipes."""
    found = {shlex.join(command): command for readme in READMES for command in commands(readme)}
    return [command for command in found.values() if command[0] in programs and not set(RECIPES) & set(command)]


def shortened(command: list[str]) -> list[str]:
    if any(word.partition("=")[0] in UNSHORTENED for word in command):
        return command
    keys = {word.lstrip("+").partition("=")[0] for word in command}
    keys |= {"data"} if set(OWN_DATA) & set(command) else set()
    debugging = any(word.startswith("+debug=") for word in command)
    added = [SHORT["data"]] if debugging else SHORT.values()
    command = [*(SHORTER.get(word, word) for word in command)]
    command += [text for text in added if text.lstrip("+").partition("=")[0] not in keys]
    return [*command, CHECKLIST] if "+debug=checklist" in command else command


@pytest.fixture(scope="module")
def ran(project, install, tmp_path_factory):
    """A project with a finished run, and a folder of images as the README names it."""
    folder = tmp_path_factory.mktemp("documented") / "project"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns("outputs", "multirun", ".git"))
    copy = install(folder)
    for number in range(20):
        (folder / f"my_images/{number % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (50, 40 + number), (number, 9 * number, 250)).save(
            folder / f"my_images/{number % 2}/{number}.jpg"
        )
    shutil.copytree(folder / "my_images/0", folder / "photos")
    rows = [f"{path.name},{('sea', 'sea;sand')[place % 2]}\n" for place, path in enumerate(folder.glob("photos/*"))]
    (folder / "labels.csv").write_text("".join(["path,label\n", *rows]), encoding="utf-8")
    (folder / "my_digits").mkdir()
    Image.new("L", (40, 40), 255).save(folder / "my_digits/blank.png")
    torch.save(resnet18().state_dict(), folder / "resnet18-f37072fd.pth")
    assert copy.run("train.py", *SHORT.values()).returncode == 0
    assert copy.run("train.py", "-m", *SHORT.values(), "seed=1").returncode == 0
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("command", of("python"), ids=shlex.join)
def test_command_works(ran, command):
    _, *arguments = shortened(command)
    if "resume=last" in arguments:  # the last one's schedule may be laid out over its length
        assert ran.run("train.py", *SHORT.values()).returncode == 0
    finished = ran.run(*arguments)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [each for each in of("torchrun") if "--nnodes" not in each], ids=shlex.join)
def test_command_of_several_processes_works(ran, command):
    finished = ran.run("-m", "torch.distributed.run", *shortened(command)[1:], "trainer.accelerator=cpu")
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("readme", READMES)
def test_target_of_make_is_there(readme):
    house = TEMPLATE if readme == "template" else PROJECT
    makefile = (house / "Makefile").read_text(encoding="utf-8")
    targets = {target for program, *targets in commands(readme) if program == "make" for target in targets}
    targets -= {"install", "train"} if readme == "template" else set()  # typed in the project
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


def test_no_other_program_is_shown_than_is_known_here():
    """What needs a package index, a second machine or a shell of one's own; launching has tests of its own.

    What a page has removed is in test_removal.py.
    """
    known = "python torchrun make srun source cd git pip uv pipx cookiecutter cruft rm wandb old=$(ls".split()  # noqa: SIM905
    assert {command[0] for readme in READMES for command in commands(readme)} <= set(known)


@pytest.mark.parametrize("readme", READMES)
def test_korean_page_shows_what_the_english_one_shows(readme):
    assert shown(korean(READMES[readme])) == shown(READMES[readme])


def korean(page: Path) -> Path:
    """Return the page's twin: README.ko.md beside README.md, docs/ko/sweeps.md for docs/sweeps.md."""
    return page.with_name("README.ko.md") if page.stem == "README" else page.parent / "ko" / page.name


def shown(page: Path) -> tuple[list[str], int]:
    """Every block without its comments, and how many headings there are."""
    text = page.read_text(encoding="utf-8")
    return [re.sub(r" *# .*", "", block.text) for block in blocks(text)], len(re.findall(r"^#+ ", text, re.MULTILINE))


def test_no_page_is_korean_alone():
    assert {korean(page) for page in READMES.values() if page.parent.name == "docs"} == {*PROJECT.glob("docs/ko/*.md")}


@pytest.mark.parametrize("readme", READMES)
def test_link_leads_to_a_file_of_the_repository(readme):
    for page in (READMES[readme], korean(READMES[readme])):
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        assert {link for link in links if not (page.parent / unquote(link)).exists()} == set()


def test_every_page_is_linked_from_the_readme():
    readme = READMES["project"].read_text(encoding="utf-8")
    assert {name for name in READMES if name.startswith("docs/") and f"]({name}.md)" not in readme} == set()


@pytest.mark.parametrize("name", ["README.md", "README.ko.md"])
def test_readme_is_one_screen_to_start_with(name):
    assert len((PROJECT / name).read_text(encoding="utf-8").splitlines()) <= 80
