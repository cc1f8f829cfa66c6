"""A recording as a file, for the other process; only what is not the default is in it."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from training_checklist.engines.rows import Row
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.seeded_runs import Recording


def write(recording: Recording, path: Path) -> None:
    content = vars(recording) | {
        "rows": [plain(row) for row in recording.rows],
        "operations": [plain(row) for row in recording.operations],
    }
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def read(path: Path) -> Recording:
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = {name: [restored(row) for row in content.pop(name)] for name in ("rows", "operations")}
    return Recording(**content, **rows)


def plain(row: Row) -> list[Any]:
    place = {each.name: value for each in fields(Place) if (value := getattr(row.place, each.name)) != each.default}
    return [row.kind, row.step, row.name, row.digest, row.norm, place]


def restored(row: list[Any]) -> Row:
    kind, step, name, digest, norm, place = row
    return Row(kind, step, name, digest, norm, Place(**place) if place else NOWHERE)
