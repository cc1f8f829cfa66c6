"""The modules of a step, as a table."""

from training_checklist.lab.module_calls import ModuleCall

COLUMNS = ("module", "type", "input", "output", "dtype", "device", "abs-min", "abs-max", "parameters")
SHOWN = 60  # rows in the terminal; the file has all


def cells(row: ModuleCall) -> list[str]:
    sizes = ["" if size is None else f"{size:.3g}" for size in (row.smallest, row.largest)]
    output = row.output or "(raised)"
    return [row.path, row.type, row.input, output, row.dtype, row.device, *sizes, str(row.parameters or "")]


def aligned(rows: list[ModuleCall]) -> list[str]:
    """Return the table as lines of text, without the columns in which all rows are the same."""
    table = [list(COLUMNS), *(cells(row) for row in rows[:SHOWN])]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    same = {name for name in ("dtype", "device") if len({getattr(row, name) for row in rows if row.dtype}) == 1}
    kept = [index for index, name in enumerate(COLUMNS) if name not in same]
    lines = ["  ".join(line[index].ljust(widths[index]) for index in kept).rstrip() for line in table]
    if len(rows) > SHOWN:
        lines.append(f"... and {len(rows) - SHOWN} more")
    done = next((row for row in rows if row.dtype), None)
    if same and done is not None:
        lines.append(f"all outputs: {', '.join(getattr(done, name) for name in sorted(same, reverse=True))}")
    return lines


def markdown(rows: list[ModuleCall]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    return "\n".join(lines) + "\n"
