"""The metrics of a run over its steps, read from what its CSV logger has written. Nothing here imports torch."""

import csv
from pathlib import Path

Curve = list[tuple[int, float]]  # (step, value)


def read_curves(table: Path) -> dict[str, Curve]:
    """Return the curves of every metric that validation has, of training and validation; none without `table`."""
    rows = read_rows(table)
    metrics = [name.removeprefix("val/") for name in (rows[0] if rows else {}) if name.startswith("val/")]
    curves = {
        f"{split}/{metric}": [
            (int(row["step"]), float(row[f"{split}/{metric}"])) for row in rows if row.get(f"{split}/{metric}")
        ]
        for metric in metrics
        for split in ("train", "val")
    }
    return {name: points for name, points in curves.items() if points}


def read_rows(table: Path) -> list[dict[str, str]]:
    """Return the rows of a metrics.csv without what a killed run or a lost disk has left half; none without `table`."""
    if not table.is_file():
        return []
    with table.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.DictReader(line for line in file if line.endswith("\n") and "\0" not in line)
        return list(filter(is_whole, rows))


def is_whole(row: dict[str | None, str | None]) -> bool:
    """Whether a row has as many cells as there are names, a step among them."""
    return None not in row and None not in row.values() and (row.get("step") or "").isdecimal()
