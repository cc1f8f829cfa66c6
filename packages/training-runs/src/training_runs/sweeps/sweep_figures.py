"""The figure of a sweep: what the monitored metric came to for each value that was swept."""

from collections.abc import Mapping, Sequence
from statistics import mean

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from training_runs.figures import STYLE
from training_runs.sweeps.sweep_summary import REPEATS

WIDE = 20  # ratio of the largest to the smallest value from which on an axis is logarithmic


@rc_context(STYLE)
def swept_keys(overrides: Sequence[Mapping[str, str]], scores: Sequence[float], metric: str, best: int) -> Figure:
    """Draw the metric of every job against the value of each swept key.

    Seed and fold are axes only where nothing else was swept.

    Args:
        overrides: for each job, the value of every swept key.
        scores: for each job.
        metric: what they are of.
        best: index of the best job.
    """
    keys = [key for key in overrides[0] if key not in REPEATS] or [*overrides[0]]
    figure = Figure(figsize=(3.0 * len(keys), 2.4), layout="constrained")
    plots = figure.subplots(1, len(keys), squeeze=False, sharey=True).flat
    for axes, key in zip(plots, keys, strict=True):
        draw_key(axes, [job[key] for job in overrides], scores, best)
        axes.set_xlabel(key)
    figure.axes[0].set_ylabel(metric)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def draw_key(axes: Axes, values: Sequence[str], scores: Sequence[float], best: int) -> None:
    """Draw jobs by the value of one key, and the means: a line where values are numbers, which have an order."""
    try:
        places = [float(value) for value in values]
        names = []
    except ValueError:
        names = list(dict.fromkeys(values))
        places = [float(names.index(value)) for value in values]
    means = [
        mean(score for at, score in zip(places, scores, strict=True) if at == place) for place in sorted({*places})
    ]
    axes.plot(places, scores, "o", color="C0", markersize=3, alpha=0.5, label="job")
    axes.plot(sorted({*places}), means, "_" if names else "-", color="C0", markersize=24, alpha=0.4, label="mean")
    axes.plot(places[best], scores[best], "o", color="C1", markersize=4, label="best")
    if names:
        axes.set_xticks(range(len(names)), map(short, names))
        axes.set_xlim(-0.5, len(names) - 0.5)
    elif min(places) > 0 and max(places) / min(places) >= WIDE:
        axes.set_xscale("log")


def short(text: str) -> str:
    """Return the end of a dotted path; a number at four digits."""
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text.rpartition(".")[2][:16]
