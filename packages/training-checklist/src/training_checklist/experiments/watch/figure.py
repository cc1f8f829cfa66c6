"""The series of a watched training, drawn. Nothing here needs a display."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from training_checklist.experiments.watch.series import Point

PANELS = (
    ("update_ratio", "change of weights a step, of their norm", "log"),
    ("gradient_norm", "norm of the gradient", "log"),
    ("gradient_at_output", "gradient at the output of each module", "log"),
    ("output_scale", "root mean square of each module's output", "log"),
    ("share_without_slope", "share of units without a slope", "linear"),
    ("seconds_a_step", "seconds a step", "linear"),
    ("memory_bytes", "memory, GiB", "linear"),
)
SCALES = {"memory_bytes": 2**-30}
NAMED = 6  # lines that a legend names; of more, the colours run from the first module to the last


def draw(path: Path, series: Sequence[Point]) -> str:
    """Write `path` as .png and .svg; return its name, or why there is none."""
    if find_spec("matplotlib") is None:
        return "none: matplotlib is not installed"
    from matplotlib import colormaps, rc_context
    from matplotlib.figure import Figure

    lines: dict[str, dict[str, list[Point]]] = {}
    for point in series:
        lines.setdefault(point.series, {}).setdefault(point.of, []).append(point)
    shown = [panel for panel in PANELS if panel[0] in lines]
    with rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "watch"}):
        figure = Figure(figsize=(3.4 * 4, 2.6 * 2), layout="constrained")
        for number, (name, label, scale) in enumerate(shown, 1):
            axes = figure.add_subplot(2, 4, number)
            for index, (of, inside) in enumerate(lines[name].items()):
                colour = colormaps["viridis"](index / max(len(lines[name]) - 1, 1) * 0.9)
                values = [point.value * SCALES.get(name, 1) for point in inside]
                axes.plot([point.step for point in inside], values, label=of, color=colour, linewidth=1)
            axes.set(xlabel="step", title=label)
            # An exact 0 has no logarithm; a series of nothing else no scale.
            if scale == "log" and any(point.value > 0 for inside in lines[name].values() for point in inside):
                axes.set_yscale("log")
            if 1 < len(lines[name]) <= NAMED:
                axes.legend(fontsize=6)
        figure.savefig(path.with_suffix(".png"), dpi=150)
        figure.savefig(path.with_suffix(".svg"))
    return f"{path.name}.png and {path.name}.svg"
