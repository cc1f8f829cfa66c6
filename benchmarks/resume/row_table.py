"""A table of results of which single rows can be tried again: a line for each row, known by its first cell."""

from collections.abc import Iterable
from pathlib import Path

MOST = 200  # characters of a cell


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def table_line(what: str, verdict: str, said: str) -> str:
    """Return the line of a row, with what was said cut to its beginning."""
    said = said if len(said) < MOST else f"{said[:MOST]} ..."
    return f"| {cell(what)} | {verdict} | {cell(said)} |"


def known(results: Path) -> dict[str, str]:
    """Return the lines of a table in a file by what their rows are called."""
    if not results.is_file():
        return {}
    lines = [line for line in results.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {line.removeprefix("| ").partition(" | ")[0]: line for line in lines[2:]}


def chosen(rows: Iterable[str], words: list[str], lines: dict[str, str]) -> list[str]:
    """Return the rows that a command asks for: all, those that have one of the words, or those that have no line."""
    if words == ["--missing"]:
        return [what for what in rows if cell(what) not in lines]
    return [what for what in rows if not words or any(word in what for word in words)]
