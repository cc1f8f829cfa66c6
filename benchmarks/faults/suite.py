"""Faults and healthy variants as data: what is changed in a project, and what a verdict has to say about it."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


class Unfit(Exception):
    """A change that does not fit the project it is made for."""


@dataclass(frozen=True)
class Variant:
    """A project with something changed.

    Args:
        id: unique.
        what: the change in one line.
        overrides: of the command line.
        patch: {file: {text that occurs once: what it becomes}}.
        write: {file: content}.
        items: that may find it, the likeliest first. Empty for a healthy variant.
        place: regular expressions, all of which one finding must match in its `what` or `where`.
        silent: whether training itself ends as if nothing were wrong.
    """

    id: str
    what: str
    overrides: Sequence[str] = ()
    patch: dict[str, dict[str, str]] = field(default_factory=dict)
    write: dict[str, str] = field(default_factory=dict)
    items: Sequence[str] = ()
    place: Sequence[str] = ()
    silent: bool = True

    def files(self, project: Path) -> dict[str, str]:
        """Return the content of every file that is not as in `project`.

        Raises:
            Unfit: a text to be replaced does not occur exactly once.
            SyntaxError: the result is no Python.
        """
        changed = dict(self.write)
        for name, replacements in self.patch.items():
            path = project / name
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            for find, replace in replacements.items():
                if text.count(find) != 1:
                    raise Unfit(f"{self.id}: {name} has {find!r} {text.count(find)} times, not once; adapt the change")
                text = text.replace(find, replace)
            changed[name] = text
        for name, text in changed.items():
            if name.endswith(".py"):
                compile(text, f"{self.id}: {name}", "exec")
        return changed

    def copy(self, project: Path, folder: Path) -> None:
        """Make `folder` the changed project."""
        changed = self.files(project)
        shutil.copytree(project, folder, symlinks=True)
        for name, text in changed.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


def own_faults() -> list[Variant]:
    """Return the faults for the generated project; those in planted/<item>.yaml are for that item."""
    faults = []
    for path in sorted((HERE / "planted").glob("*.yaml")):
        for name, entry in read(path).items():
            items = entry.pop("item", path.stem)
            faults.append(Variant(id=name, items=[items] if isinstance(items, str) else items, **entry))
    return faults


def own_healthy() -> list[Variant]:
    """Return the healthy variants of the generated project."""
    variants = []
    for name, entry in read(HERE / "healthy.yaml").items():
        what = entry.pop("what", " ".join(entry.get("overrides", [])) or name.replace("_", " "))
        variants.append(Variant(id=name, what=what, **entry))
    return variants


def foreign(path: Path) -> tuple[list[Variant], list[Variant]]:
    """Return the faults and healthy variants of a faults.json; it may have `place` for a fault, as here."""
    content = read(path)
    faults = [
        Variant(
            items=entry["item"].split(" / "),
            place=entry.get("place") or [any_name_in(entry["where"])],
            silent=entry["silent"],
            **change_of(entry),
        )
        for entry in content["faults"]
    ]
    return faults, [Variant(**change_of(entry)) for entry in content["healthy"]]


def change_of(entry: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, dict[str, str]] = {}
    for each in entry["mutation"]["patch"]:
        patch.setdefault(each["file"], {})[each["find"]] = each["replace"]
    change = {"overrides": entry["mutation"]["overrides"], "patch": patch, "write": entry["mutation"]["write"]}
    return {"id": entry["id"], "what": entry["description"], **change}


def any_name_in(where: str) -> str:
    """Return an expression for any of the names of code or config in a sentence, or for the whole of it."""
    names = re.findall(r"[A-Za-z]\w*(?:[._/]\w+)+|\w+\(", where)
    return "|".join(re.escape(name) for name in names) or re.escape(where)


def read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
