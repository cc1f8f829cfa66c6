"""Names and texts of others, for a terminal and for a table that a spreadsheet may open."""

FORMULA = ("=", "+", "-", "@")  # what spreadsheets take for the beginning of a formula (OWASP, "CSV Injection")


def printable(text: str) -> str:
    """Return `text` with escapes for what would move a terminal's cursor, or is no character: \\x1b, \\n, \\udcff."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def as_cell(text: str) -> str:
    """Return `text` for a cell of a table: printable, and no formula, however it begins."""
    cell = printable(text)
    return f"'{cell}" if cell.lstrip().startswith(FORMULA) else cell
