"""Every YAML that is shipped says what it is for, and its command works as it is written."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal import config_loader_impl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from in_project import TEMPLATE

# Those of the project, and those that reach it from a library.
CHECKLIST = TEMPLATE.parent / "packages/training-checklist/src/training_checklist/conf"
FILES = {
    path.relative_to(folder).with_suffix("").as_posix(): path
    for folder in (TEMPLATE / "conf", CHECKLIST)
    for path in sorted(folder.rglob("*.yaml"))
}


@pytest.fixture
def opening(root):
    """`opening(name)`: the first two lines, after the one that says where the file's keys go."""

    def run(name: str) -> list[str]:
        path = FILES[name]
        generated = root / path.relative_to(TEMPLATE) if path.is_relative_to(TEMPLATE) else path
        lines = generated.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if not line.startswith("# @package")][:2]

    return run


def jobs(arguments: list[str]) -> list[list[str]]:
    """The overrides of every job of a sweep; of the only job where nothing is swept."""
    [batch] = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(arguments), max_batch_size=None)
    return batch


@pytest.mark.parametrize("name", FILES)
def test_file_opens_with_its_purpose_and_a_command(opening, name):
    purpose, command = opening(name)
    assert re.fullmatch(r"# [A-Z0-9].*\.", purpose)
    assert re.match(r"# python \w+\.py\b", command)


@pytest.mark.parametrize("name", FILES)
def test_command_in_the_file_composes_that_file(opening, root, name, monkeypatch):
    loaded = []

    def spy(*arguments, **options):
        found = create_defaults_list(*arguments, **options)
        loaded.append([default.config_path for default in found.defaults])
        return found

    monkeypatch.setattr(config_loader_impl, "create_defaults_list", spy)
    _, script, *arguments = shlex.split(opening(name)[1].removeprefix("# "))
    assert (root / script).is_file()
    given = get_args_parser().parse_args(arguments).overrides
    with initialize_config_dir(str(root / "conf"), version_base="1.3"):
        for job in jobs(given):
            outside = [] if script == "eval.py" else ["output_dir=nowhere", "data_dir=nowhere"]
            compose(Path(script).stem, overrides=outside + job)
    assert all(name in files for files in loaded)


# The run of watch is as any other, and checklist has none of its own.
ITEMS = {path.stem for path in CHECKLIST.glob("debug/*.yaml")} - {"watch", "checklist"}


@pytest.mark.parametrize("item", sorted(ITEMS))
def test_debug_item_draws_no_figures(compose, item):
    assert not compose(f"+debug={item}").figures
