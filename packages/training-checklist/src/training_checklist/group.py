"""The doors through which Hydra finds the items' configs.

`+checklist=overfit` is understood in every project, and nothing is there before a command asks for it: installing this
package changes no command that a project has. A project that wants a group of its own choice asks for it in its
pyproject.toml: `[tool.training-checklist]` with `group = "debug"`; the variable TRAINING_CHECKLIST_GROUP comes first.
`training_checklist`, which no help lists, is always there: for a defaults list, and where a project has a config of the
same name in its own group. Hydra asks at every start: nothing heavy here.
"""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from traceback import walk_stack

OWN = "debug"  # what the folder of the configs is called
DOOR = "checklist"  # the group of every project
ALWAYS = "training_checklist"  # the items' last group
ALL, CHECKLIST = "all", "checklist"  # what all items together are called in DOOR, and in every other group
PROVIDER = "training-checklist"  # of all groups, in Hydra's search path
VARIABLE = "TRAINING_CHECKLIST_GROUP"
ASKED = re.compile(rf"\+{{1,2}}{DOOR}(@[\w.]*)?=|{DOOR}=")
MAIN = re.compile(r"^\s*@(hydra\.main|main)\(", re.MULTILINE)

_configs: Path | None = None  # the folder of the configs of the application that Hydra has started last


def look_from(paths: Iterable[str | None]) -> None:
    """Remember where the application's own configs lie, by their paths in Hydra's search path."""
    global _configs
    files = [path.removeprefix("file://") for path in paths if path is not None and "pkg://" not in path]
    _configs = Path(files[0]) if files else None


def group_name() -> str | None:
    """Return the group that the project asks for, None where it asks for none."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE] or None
    return next((name for path in projects() if (name := asked_in(path)) is not None), None)


def projects() -> Iterator[Path]:
    """Yield the pyproject.toml that is nearest to the configs, to the working directory and to the program."""
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    for start in (_configs, Path.cwd(), None if program is None else Path(program).parent):
        folder = None if start is None else start.absolute()
        above = () if folder is None else (folder, *folder.parents)
        yield from [path for each in above if (path := each / "pyproject.toml").is_file()][:1]


def asked_in(path: Path) -> str | None:
    try:
        return group_in(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@cache
def group_in(text: str) -> str | None:
    settings = tomllib.loads(text).get("tool", {}).get("training-checklist", {}) if "training-checklist" in text else {}
    return str(settings["group"]) if "group" in settings else None


def groups() -> tuple[str, ...]:
    """Return the names by which an override may ask for items, the project's own choice first."""
    own = group_name()
    return tuple(dict.fromkeys([*([] if own is None else [own]), DOOR, ALWAYS]))


def offered() -> tuple[str, ...]:
    """Return the groups that this command is offered."""
    is_asked = any(ASKED.match(argument) for argument in sys.argv[1:])
    return tuple(name for name in groups() if name != DOOR or is_asked or name == group_name())


def typed_group() -> str | None:
    """Return the group by which this command asks for items, None where it asks for none."""
    keys = [argument.lstrip("+").partition("=")[0].partition("@")[0] for argument in sys.argv[1:] if "=" in argument]
    return next((key for key in keys if key in groups()), None)


def composed_by_hand() -> bool:
    """Whether `hydra.compose` is at work, and no `hydra.main`, whose callbacks run the items."""
    names = {(frame.f_globals.get("__name__"), frame.f_code.co_name) for frame, _ in walk_stack(None)}
    return ("hydra.compose", "compose") in names and ("hydra._internal.utils", "_run_hydra") not in names


def goes_on_to_main() -> bool:
    """Whether code that is at work decorates with `hydra.main`: a program may compose its config once before."""
    files = {Path(frame.f_code.co_filename) for frame, _ in walk_stack(None)}
    own = [path for path in files if "hydra" not in path.parts and path.is_file()]
    return any(MAIN.search(path.read_text(encoding="utf-8", errors="replace")) for path in own)


def group_of(item: str) -> str:
    """Return the group in which an item is found: the project's own debug/overfit.yaml hides the one of that name."""
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    typed = typed_group()
    first = DOOR if typed == ALWAYS else typed or group_name() or DOOR
    hydra = GlobalHydra.instance()
    if not hydra.is_initialized():
        return first
    for name in dict.fromkeys((first, DOOR, ALWAYS)):
        found = hydra.config_loader().repository.load_config(f"{name}/{option(name, item)}")
        if found is None or found.provider == PROVIDER or found.defaults_list:
            return name
        if OmegaConf.select(found.config, f"hydra.callbacks.{OWN}") is not None:  # the project's own version of it
            return name
    return ALWAYS


def option(group: str, item: str) -> str:
    """Return what an item is called in a group."""
    return ALL if item == CHECKLIST and group == DOOR else item
