"""A config file that is no YAML, told in place of a traceback: no job begins then that could have a verdict."""

from functools import wraps
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.errors import CompactHydraException

from training_checklist.group import typed_group


class Unreadable(CompactHydraException):
    """Hydra prints the message without a traceback and exits with 1."""


def tell_of_unreadable_files() -> None:
    """Let a file that the composition cannot read be answered like a finding, with its line."""
    load = FileConfigSource.load_config
    if hasattr(load, "__wrapped__"):
        return

    @wraps(load)
    def loaded(source: FileConfigSource, config_path: str) -> Any:
        try:
            return load(source, config_path)
        except yaml.YAMLError as error:
            if typed_group() is None:  # a command after that one, in the same process
                raise
            raise Unreadable(said(Path(source.path, source._normalize_file_name(config_path)), error)) from None

    FileConfigSource.load_config = loaded


def said(path: Path, error: yaml.YAMLError) -> str:
    """Return what is wrong with a file, where, why that matters and what to do."""
    marks = [mark for mark in (getattr(error, "context_mark", None), getattr(error, "problem_mark", None)) if mark]
    problem = getattr(error, "problem", None) or str(error)
    file = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    lines = f":{marks[-1].line + 1}" if marks else ""
    key = problem.removeprefix("found duplicate key ") if "duplicate key" in problem else ""
    fix = "correct that line; a value with a colon, a #, a % or a tab needs quotes"
    if key:
        first = first_line(path, key, marks[-1].line)
        problem = f"the key {key} stands there twice" + (f", first in line {first}" if first else "")
        fix = "remove one of the two"
    return (
        f"config failed: {file} cannot be read: {problem}  [config/unreadable-file]\n"
        f"  where {file}{lines}\n"
        f"  why   nothing can be composed from it, so that no run begins\n"
        f"  next  {fix}"
    )


def first_line(path: Path, key: str, before: int) -> int | None:
    """Return the line, from 1 on, that sets a key above another line."""
    lines = path.read_text(encoding="utf-8").splitlines()[:before]
    found = [number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:")]
    return found[-1] if found else None
