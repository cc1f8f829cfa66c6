"""Figures of a sweep: what the monitored metric came to for each value that was swept."""

from collections.abc import Mapping, Sequence
from statistics import mean

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from training_runs.figures import STYLE
from training_runs.sweeps.seeds import SEED, Setting, settings

WIDE = 20  # ratio of the largest to the smallest value from which on an axis is logarithmic
DODGE = 7  # points between settings that share a value
LABEL = {
    "xytext": (4, 0),
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 7,
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
}


@rc_context(STYLE)
def swept_keys(overrides: Sequence[Mapping[str, str]], scores: Sequence[float], metric: str, best: int) -> Figure:
    """Draw the metric of every job against the value of each swept key, and mean and spread over seeds.

    A line goes through the means where values are numbers; categories have no order, and no line. The seed is an axis
    only where nothing else was swept.

    Args:
        overrides: for each job, the value of every swept key.
        scores: for each job.
        metric: what they are of.
        best: index of the best job.
    """
    tried = settings(overrides, scores)
    keys = list(tried[0].overrides)
    if not keys:
        return seeds_alone([job[SEED] for job in overrides], tried[0], metric, best)
    winner = Setting({key: overrides[best][key] for key in keys}, [scores[best]])
    columns = min(3, len(keys))
    rows = -(-len(keys) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.4 * rows), layout="constrained")
    plots = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes in plots.flat[len(keys) :]:
        axes.axis("off")
    for axes, key in zip(plots.flat, keys, strict=False):
        place, ticks, logarithmic = positions([job[key] for job in overrides])
        sharing: dict[float, list[Setting]] = {}
        for each in tried:
            sharing.setdefault(place[each.overrides[key]], []).append(each)
        places = sorted(sharing)
        means = [mean(each.mean for each in sharing[where]) for where in places]
        axes.plot(places, means, "_" if ticks else "-", color="C0", markersize=24, alpha=0.4, label="mean of a value")
        draw_settings(axes, sharing, winner)
        axes.set(xlabel=key, xscale="log" if logarithmic else "linear")
        if ticks:
            axes.set_xticks(range(len(ticks)), map(short, ticks))
            axes.set_xlim(-0.5, len(ticks) - 0.5)
    for axes in plots[:, 0]:
        axes.set_ylabel(metric)
    handles, labels = plots.flat[0].get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))  # each once
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=2 * min(2, columns), fontsize=8)
    return figure


def draw_settings(axes: Axes, sharing: Mapping[float, Sequence[Setting]], winner: Setting) -> None:
    """Draw jobs, and over seeds mean and deviation; settings that share a value side by side.

    Args:
        axes: of one key.
        sharing: by the place of a value, the settings that have it.
        winner: setting and score of the best job of all.
    """
    beside: dict[float, list[tuple[float, Setting]]] = {}  # all with one shift are one artist: there may be thousands
    for place, tried in sharing.items():
        for number, each in enumerate(tried):
            beside.setdefault(DODGE * (number - (len(tried) - 1) / 2), []).append((place, each))
    for shift, placed in beside.items():
        shifted = {"transform": offset_copy(axes.transData, axes.figure, x=shift, units="points")}
        jobs = [(place, score) for place, each in placed for score in each.scores]
        axes.plot(*zip(*jobs, strict=True), "o", color="C0", markersize=3, alpha=0.5, label="job", **shifted)
        several = [(place, each.mean, each.spread) for place, each in placed if len(each.scores) > 1]
        if several:
            style = {"fmt": "_", "color": "C0", "elinewidth": 0.8, "capsize": 2, "markersize": 5} | shifted
            axes.errorbar(*zip(*several, strict=True), label="mean ± deviation over seeds", **style)
        for place, each in placed:
            if each.overrides == winner.overrides:
                axes.plot(place, winner.scores[0], "o", color="C1", markersize=4, label="best", **shifted)
        # What lies beside its place is not among the limits that matplotlib finds.
        ends = [(place, mean + sign * spread) for place, mean, spread in several for sign in (-1, 1)]
        axes.update_datalim(jobs + ends)
    axes.autoscale_view()


def seeds_alone(seeds: Sequence[str], tried: Setting, metric: str, best: int) -> Figure:
    """Draw the jobs of one setting side by side, with the band of their mean and deviation."""
    figure = Figure(figsize=(3.4, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.axhspan(tried.mean - tried.spread, tried.mean + tried.spread, color="C0", alpha=0.15, label="± deviation")
    axes.axhline(tried.mean, color="C0", alpha=0.4, label="mean")
    axes.plot(range(len(seeds)), tried.scores, "o", color="C0", markersize=4, label="job")
    axes.plot(best, tried.scores[best], "o", color="C1", label="best")
    axes.set_xticks(range(len(seeds)), seeds)
    axes.set_xlim(-0.5, len(seeds) - 0.5)
    axes.set(xlabel=SEED, ylabel=metric)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    return figure


@rc_context(STYLE)
def parallel_coordinates(overrides: Sequence[Mapping[str, str]], scores: Sequence[float], metric: str) -> Figure:
    """Draw every setting as one line through its values and the mean of its metric over seeds, which is its colour.

    Arguments are those of `swept_keys`.
    """
    tried = settings(overrides, scores)
    means = [each.mean for each in tried]
    keys = list(tried[0].overrides)
    figure = Figure(figsize=(1.6 * len(keys) + 1.6, 3.0), layout="constrained")
    axes = figure.subplots()
    heights = []
    for column, key in enumerate(keys):
        height, labels = scaled([each.overrides[key] for each in tried])
        heights.append(height)
        for place, label in labels:
            axes.annotate(label, (column, place), **LABEL)
    norm = Normalize(min(means), max(means))
    heights.append([float(norm(score)) if norm.vmin < norm.vmax else 0.5 for score in means])
    for label, place in ((norm.vmin, 0), (norm.vmax, 1)):
        axes.annotate(f"{label:.4g}", (len(keys), place), **LABEL)
    for row, score in sorted(enumerate(means), key=lambda pair: pair[1]):
        axes.plot([column[row] for column in heights], color=colormaps["viridis"](norm(score)), alpha=0.8)
    axes.vlines(range(len(heights)), 0, 1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(heights)), [*keys, metric], fontsize=8)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return figure


@rc_context(STYLE)
def curves_of_jobs(curves: Mapping[int, Sequence[tuple[int, float]]], metric: str, best: int) -> Figure:
    """Draw the metric over the steps of every job, the best one on top.

    Args:
        curves: (step, value) points by the number of the job; of many jobs, or of the few that have any.
        metric: what they are of.
        best: number of the best job.
    """
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    axes = figure.subplots()
    for job, points in sorted(curves.items(), key=lambda pair: pair[0] == best):
        style = {"color": "C1", "label": f"best: job {job}"} if job == best else {"color": "0.6", "alpha": 0.6}
        axes.plot(*zip(*points, strict=True), marker="." if len(points) < 30 else None, **style)
    axes.set(xlabel="step", ylabel=metric)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", fontsize=8)
    return figure


def positions(texts: Sequence[str]) -> tuple[dict[str, float], list[str], bool]:
    """Return where each value lies on an axis, the names of ticks where they are no numbers, and whether it is log."""
    numbers = as_numbers(texts)
    if numbers is None:
        names = list(dict.fromkeys(texts))
        return {name: float(place) for place, name in enumerate(names)}, names, False
    wide = min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE
    return dict(zip(texts, numbers, strict=True)), [], wide


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
