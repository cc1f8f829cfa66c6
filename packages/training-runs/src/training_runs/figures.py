"""How figures look and how they are saved, and the curves of a training. Nothing here needs a display."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context, rc_params_from_file
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from training_runs.fonts import choose_fonts

STYLE = rc_params_from_file(Path(__file__).with_name("publication.mplstyle"), use_default_template=False)


@rc_context(STYLE)
def save(figure: Figure, path: Path) -> None:
    """Write `path` as .png for screens and as .svg for papers.

    By their canvases: `figure.savefig` would draw once more for each of them, to find the layout.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.set_dpi(STYLE["savefig.dpi"])
    choose_fonts(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a line for each letter and file
        FigureCanvasAgg(figure).print_png(path.with_suffix(".png"))
        figure.set_layout_engine("none")  # it is laid out
        FigureCanvasSVG(figure).print_svg(path.with_suffix(".svg"))


@rc_context(STYLE)
def learning_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], best: tuple[str, float] | None = None
) -> Figure:
    """Draw (step, value) points by the name of their metric, train and val of one metric in one plot.

    Args:
        curves: of a training.
        best: the metric whose best value is marked, and its step, which is marked in every plot.
    """
    plots: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for name, points in curves.items():
        split, _, metric = name.partition("/")
        plots.setdefault(metric, {})[split] = points
    figure = Figure(figsize=(3.4 * len(plots), 2.6), layout="constrained")
    for axes, (metric, splits) in zip(figure.subplots(1, len(plots), squeeze=False).flat, plots.items(), strict=True):
        for split, points in splits.items():
            axes.plot(*zip(*points, strict=True), label=split, marker="." if len(points) < 30 else None)
        if best is not None:
            name, step = best
            axes.axvline(step, color="0.5", linestyle=":", linewidth=1, zorder=0)
            if name.partition("/")[2] == metric:
                label = f"best: {dict(curves[name])[step]:.4g}"
                axes.plot(step, dict(curves[name])[step], "*", color="0.2", markersize=9, label=label)
        axes.set(xlabel="step", ylabel=metric)
        axes.legend()
    return figure
