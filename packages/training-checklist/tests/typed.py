"""Types what a finding says is next, and asks whether the program takes it and whether it arrives."""

import ast
import inspect
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from training_checklist import check
from training_checklist.finding import Finding
from training_checklist.group import OWN, VARIABLE
from training_checklist.lightning import Trainer
from training_checklist.python_call import load
from training_checklist.reporting.wording import in_words
from training_checklist.settings import check_settings


def composed(folder: Path, *overrides: str) -> DictConfig:
    with pytest.MonkeyPatch.context() as patch, initialize_config_dir(str(folder / "conf"), version_base="1.3"):
        patch.setenv(VARIABLE, OWN)
        return compose("train", overrides=[*overrides], return_hydra_config=True)


def said_in(folder: Path, finding: Finding, item: str, *overrides: str) -> str:
    """Return what is next where `python train.py` has found something in the project of a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train.py"])
        patch.setattr(sys.modules["__main__"], "__spec__", None)
        patch.setenv(VARIABLE, OWN)
        return in_words(finding, item, composed(folder, f"+{OWN}={item}", *overrides))


def assert_works(said: str, folder: Path) -> None:
    """Type each command that some advice begins with."""
    for text in commands(said):
        if text.startswith("check("):
            assert_is_taken(ast.parse(text.partition(" with ")[0], mode="eval").body)
        else:
            program, script, *arguments = shlex.split(text)
            assert (program, script) == ("python", "train.py")
            assert_arrives(arguments, composed(folder, *arguments))


def commands(said: str) -> Iterator[str]:
    return (text for text in said.split("; ") if text.startswith(("python ", "check(")))


def assert_is_taken(call: ast.Call) -> None:
    """Whether `check` takes the arguments, and what it gives them to does."""
    options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    inspect.signature(check).bind(*call.args, **options)
    items = [load(item) for item in options["items"]]
    inspect.signature(Trainer).bind(**options.get("trainer", {}))
    _, problems = check_settings(options.get("checks", {}), items)
    assert problems == []


def assert_arrives(arguments: list[str], config: DictConfig) -> None:
    content = OmegaConf.to_container(config, resolve=False)
    typed = OverridesParser.create().parse_overrides(arguments)
    for number, override in enumerate(typed):
        if any(each.key_or_group.startswith(f"{override.key_or_group}.") for each in typed[number + 1 :]):
            continue  # a part of it is changed again
        at = value_at(content, override.key_or_group)
        if override.is_delete():
            assert at is None, override.input_line
        elif override.key_or_group not in config.hydra.runtime.choices:
            assert at == override.value(), override.input_line


def value_at(content: Any, key: str) -> Any:
    for part in key.split("."):
        content = content[int(part)] if isinstance(content, list) else content.get(part)
        if content is None:
            return None
    return content
