"""Figures of a sweep: what the monitored metric came to for each value that was swept."""

from collections.abc import Mapping, Sequence
from statistics import mean

from matplotlib import colormaps, rc_context
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from training_runs.figures import STYLE

WIDE = 20  # ratio of the largest to the smallest value from which on an axis is logarithmic
LABEL = {
    "xytext": (4, 0),
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 7,
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
}


@rc_context(STYLE)
def swept_keys(overrides: Sequence[Mapping[str, str]], scores: Sequence[float], metric: str, best: int) -> Figure:
    """Draw the metric of every job against the value of each swept key, and its mean over the jobs of each value.

    Args:
        overrides: for each job, the value of every swept key.
        scores: for each job.
        metric: what they are of.
        best: index of the best job.
    """
    keys = list(overrides[0])
    columns = min(3, len(keys))
    rows = -(-len(keys) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.4 * rows), layout="constrained")
    plots = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes in plots.flat[len(keys) :]:
        axes.axis("off")
    for axes, key in zip(plots.flat, keys, strict=False):
        places, ticks, logarithmic = positions([job[key] for job in overrides])
        values = sorted(set(places))
        means = [mean([score for place, score in zip(places, scores, strict=True) if place == at]) for at in values]
        axes.plot(values, means, "_" if ticks else "-", color="C0", markersize=24, alpha=0.4)
        axes.plot(places, scores, "o", color="C0", markersize=4)
        axes.plot(places[best], scores[best], "o", color="C1", label="best")
        axes.set(xlabel=key, xscale="log" if logarithmic else "linear")
        if ticks:
            axes.set_xticks(range(len(ticks)), map(short, ticks))
            axes.set_xlim(-0.5, len(ticks) - 0.5)
    for axes in plots[:, 0]:
        axes.set_ylabel(metric)
    plots.flat[0].legend()
    return figure


@rc_context(STYLE)
def parallel_coordinates(overrides: Sequence[Mapping[str, str]], scores: Sequence[float], metric: str) -> Figure:
    """Draw every job as one line through its values and its metric, coloured by the metric.

    Arguments are those of `swept_keys`.
    """
    keys = list(overrides[0])
    figure = Figure(figsize=(1.6 * len(keys) + 1.6, 3.0), layout="constrained")
    axes = figure.subplots()
    heights = []
    for column, key in enumerate(keys):
        height, labels = scaled([job[key] for job in overrides])
        heights.append(height)
        for place, label in labels:
            axes.annotate(label, (column, place), **LABEL)
    norm = Normalize(min(scores), max(scores))
    heights.append([float(norm(score)) if norm.vmin < norm.vmax else 0.5 for score in scores])
    for label, place in ((norm.vmin, 0), (norm.vmax, 1)):
        axes.annotate(f"{label:.4g}", (len(keys), place), **LABEL)
    for job, score in sorted(enumerate(scores), key=lambda pair: pair[1]):
        axes.plot([column[job] for column in heights], color=colormaps["viridis"](norm(score)), alpha=0.8)
    axes.vlines(range(len(heights)), 0, 1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(heights)), [*keys, metric], fontsize=8)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return figure


def positions(texts: Sequence[str]) -> tuple[list[float], list[str], bool]:
    """Return where values lie on an axis, the names of its ticks where they are no numbers, and whether it is log."""
    numbers = as_numbers(texts)
    if numbers is None:
        names = list(dict.fromkeys(texts))
        return [names.index(text) for text in texts], names, False
    return numbers, [], min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE


def scaled(texts: Sequence[str]) -> tuple[list[float], list[tuple[float, str]]]:
    """Return values as 0..1, evenly spaced in their order, and the label of each place."""
    numbers = as_numbers(texts)
    names = list(dict.fromkeys(texts)) if numbers is None else sorted(set(texts), key=float)
    places = {name: place / (len(names) - 1) if len(names) > 1 else 0.5 for place, name in enumerate(names)}
    shown = names if len(names) <= 8 else [names[0], names[-1]]
    return [places[text] for text in texts], [(places[name], short(name)) for name in shown]


def as_numbers(texts: Sequence[str]) -> list[float] | None:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None


def short(text: str) -> str:
    """Return the end of a dotted path, or a number at four digits."""
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text.rpartition(".")[2][:16]
