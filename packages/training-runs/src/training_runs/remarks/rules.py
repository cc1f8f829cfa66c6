"""What a run's own curves say about it: a function a rule, and in `RULES` their order, the most telling first.

Epochs are counted from 0, as in metrics.csv and in Lightning's progress bar.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from training_runs.remarks.answers import FAR
from training_runs.remarks.evidence import Evidence, means
from training_runs.remarks.trend import SHORTEST, SURE, falls, rises, scatter

SPLITS = ("test", "val", "train")
SEVERAL = 3  # epochs: the first of two is the best in every other run that has nothing left to learn
NEIGHBOURS = 5  # points on either side of one that say what its level is: fewer are moved by two spikes in a row
QUARTILES = 20  # points: five to each quarter, so that one spike is no quartile
DIGIT = 1e-3  # of a metric: less does not show in the three digits that results are reported with
# As +debug=profile has it: a small network on augmented data waits for half of its time, and nothing is wrong.
WAITING = 0.7


@dataclass(frozen=True)
class Remark:
    """One thing to know of a run.

    Attributes:
        id: of the rule, which never changes.
        what: what was seen, with its numbers.
        next: what to do or to run next.
    """

    id: str
    what: str
    next: str


@dataclass(frozen=True)
class Rule:
    """A question to a run's evidence; not asked where a remark of `unless` stands, which has the same cause."""

    id: str
    judge: Callable[[Evidence], tuple[str, str] | None]
    unless: tuple[str, ...] = ()


def remarks_on(evidence: Evidence) -> list[Remark]:
    """Return what is to be said of a run, the most telling first; nothing of a healthy one."""
    remarks: list[Remark] = []
    for rule in RULES:
        if any(remark.id in rule.unless for remark in remarks):
            continue
        said = rule.judge(evidence)
        if said is not None:
            remarks.append(Remark(rule.id, *said))
    return remarks


def not_finite(evidence: Evidence) -> tuple[str, str] | None:
    """A loss that was ever NaN or infinite; any other metric that is so in the end: it may lack a value at first."""
    begun: dict[str, int | None] = {}
    for name, points in evidence.points.items():
        # What no epoch is known of, the module has not logged: with a GradScaler a gradient's norm overflows at times.
        wrong = [point for point in points if point.epoch is not None and not math.isfinite(point.value)]
        if wrong and (is_loss(name) or wrong[-1] == points[-1]):
            begun[name] = wrong[0].epoch
    for name, value in evidence.metrics.items():
        if (value is None or not math.isfinite(value)) and name not in begun:
            begun[name] = None
    if not begun:
        return None
    names = ", ".join(sorted(name for name in begun if name.removesuffix("_step") == name or name[:-5] not in begun))
    epochs = [epoch for epoch in begun.values() if epoch is not None]
    since = f" from epoch {min(epochs)} on" if epochs else ""
    command = evidence.commands.debug("anomaly")
    finds = "find the operation that came to it first" + (
        f": {command}" if command else " with torch.autograd.detect_anomaly"
    )
    return f"{names}: not a finite number{since}", finds


def no_better_than_constant(evidence: Evidence) -> tuple[str, str] | None:
    """Accuracy within chance of a constant answer's, or a cross-entropy that no epoch brings below its entropy."""
    if evidence.cut:
        return None
    return like_chance(evidence) or above_entropy(evidence)


def like_chance(evidence: Evidence) -> tuple[str, str] | None:
    """Judge the accuracy that says most: of test, which has chosen no checkpoint, before val and train."""
    for split in SPLITS:
        for name in (f"{split}/accuracy", f"{split}/acc"):
            value, answer = evidence.metrics.get(name), evidence.answers.get(split)
            if value is None or not 0 <= value <= 1:  # a percentage, maybe
                continue
            if answer is None or not answer.explains(value):
                return None
            what = (
                f"{name} is {value:.4f}; {answer}, without a look at the inputs, has {answer.accuracy:.4f} "
                f"± {answer.error:.4f} (standard error of {answer.samples:,} samples): "
                f"less than {FAR:g} of these above it may be chance"
            )
            return what, whether_it_learns(evidence)
    return None


def above_entropy(evidence: Evidence) -> tuple[str, str] | None:
    """Judge the losses of all splits together: a sum of several falls below it in training at least."""
    best = {split: min(evidence.epochs.get(f"{split}/loss", {}).values(), default=None) for split in ("val", "train")}
    seen = {split: loss for split, loss in best.items() if loss is not None}
    if not seen or not evidence.cross_entropy or not evidence.answers.keys() >= seen.keys():
        return None
    if any(loss < evidence.answers[split].loss for split, loss in seen.items()):
        return None
    told = ", ".join(f"{split}/loss is {loss:.4f} at best" for split, loss in seen.items())
    least = evidence.answers[next(iter(seen))].loss
    what = f"{told}; the shares of the classes alone, without a look at the inputs, have {least:.4f}"
    return what, whether_it_learns(evidence)


def never_moves(evidence: Evidence) -> tuple[str, str] | None:
    """A loss or the monitored metric with one value in all epochs: two floats of a training agree once in a million."""
    still = {}
    for name, epochs in evidence.epochs.items():
        values = set(epochs.values())
        perfect = name == evidence.monitor and evidence.mode == "max" and values == {1.0}
        if (is_loss(name) or name == evidence.monitor) and len(epochs) >= SEVERAL and len(values) == 1 and not perfect:
            still[name] = values.pop()
    if not still:
        return None
    told = ", ".join(f"{name} is {value:.6g}" for name, value in sorted(still.items()))
    command = evidence.commands.debug("gradients")
    asks = "see whether the optimizer changes any weight" + (f": {command}" if command else "")
    return f"{told} in every epoch, to the last digit", asks


def first_is_best(evidence: Evidence) -> tuple[str, str] | None:
    values = evidence.monitored
    if len(values) < SEVERAL or values[0] - max(values[1:]) <= by_chance(evidence, values[1:]):
        return None
    first, later = (evidence.sign * value for value in (values[0], max(values[1:])))
    what = f"{evidence.monitor} is best in the first of {len(values)} epochs: {first:.4f}, then {later:.4f} at best"
    return what, whether_it_learns(evidence)


def by_chance(evidence: Evidence, values: Sequence[float]) -> float:
    """Return by how much two values of the monitored metric differ in 5 % of cases where nothing changes.

    Args:
        evidence: knows of an accuracy over how many samples it is, and so its binomial standard error.
        values: some of its epochs, which scatter.
    """
    error = scatter(values)
    answer = evidence.answers.get(evidence.monitor.partition("/")[0])
    share = max(values)
    if answer is not None and evidence.monitor.endswith(("/accuracy", "/acc")) and 0 <= share <= 1:
        error = max(error, math.sqrt(share * (1 - share) / answer.samples))
    return SURE * math.sqrt(2) * error  # a difference has twice the variance of a value


def validation_turns(evidence: Evidence) -> tuple[str, str] | None:
    """A loss of validation that rises after its lowest epoch by more than it scatters, while that of training falls."""
    for name, val in evidence.epochs.items():
        train = evidence.epochs.get(name.replace("val/", "train/"), {})
        shared = [epoch for epoch in val if epoch in train]
        if not (name.startswith("val/") and is_loss(name) and shared):
            continue
        lowest = min(shared, key=val.__getitem__)
        since = [epoch for epoch in shared if epoch >= lowest]
        # Without the lowest itself, above which all others lie by its choice.
        higher, trained = [val[epoch] for epoch in since[1:]], [train[epoch] for epoch in since]
        if not (rises(higher) and falls(trained) and median(higher) - val[lowest] > SURE * scatter([*val.values()])):
            continue
        what = (
            f"{name} rises after epoch {lowest} ({val[lowest]:.4f} to {higher[-1]:.4f}) "
            f"while {name.replace('val/', 'train/')} falls ({trained[0]:.4f} to {trained[-1]:.4f})"
        )
        if evidence.monitor != name:
            keep = evidence.commands.again(f"monitor={name}", "mode=min")
            return what, f"regularise, or keep the checkpoint of that epoch: {keep}"
        return what, "regularise, or train on more data; the best checkpoint is the one of that epoch"
    return None


def spikes(evidence: Evidence) -> tuple[str, str] | None:
    """The loss of single steps far above its neighbours, which takes back more of what was learned than it leaves.

    Far out in Tukey's sense (Exploratory Data Analysis, 1977), more than three interquartile ranges beyond the
    quartile, of the logarithm: the loss of a batch scatters in proportion to its size. Single batches lie that far
    out in healthy training too, above all late, when losses are small, so that is not enough.
    """
    for name, points in evidence.points.items():
        by_step = len(points) > len(means(points))
        if not (name.startswith("train/") and is_loss(name) and by_step) or len(points) < QUARTILES:
            continue
        if not all(0 < point.value < math.inf for point in points):  # which has no logarithm
            continue
        logs = [math.log(point.value) for point in points]
        begun = max(logs[:NEIGHBOURS])  # it falls fastest there: their median would be what is learned already
        # Of those around it, itself among them: a level that moves with the curve.
        inner = range(NEIGHBOURS, len(logs))
        levels = [median(logs[index - NEIGHBOURS : index + NEIGHBOURS + 1]) for index in inner]
        above = [logs[index] - level for index, level in zip(inner, levels, strict=True)]
        low, _, high = quantiles(above)
        far = high + 3 * (high - low)
        found = [
            index
            for index, level in enumerate(levels)
            if above[index] > far and begun - level > far and above[index] > (begun - level) / 2
        ]
        if not found:
            continue
        worst = max(found, key=above.__getitem__)
        step, _, value = points[worst + NEIGHBOURS]
        told = f"{len(found)} spikes, the worst" if len(found) > 1 else "a spike"
        level = f"from a level of {math.exp(levels[worst]):.4g}; it began with {math.exp(begun):.4g}"
        return f"{name} has {told} at step {step}: {value:.4g}, {level}", clipping(evidence)
    return None


def clipping(evidence: Evidence) -> str:
    """Return how to clip: at a typical norm; half to ten times as much is as good (Pascanu, Mikolov, Bengio, 2013)."""
    norms = [point.value for point in evidence.points.get("train/gradient_norm", ()) if math.isfinite(point.value)]
    if not norms:
        return "lower the learning rate, or clip the gradients with trainer.gradient_clip_val"
    command = evidence.commands.again(f"++trainer.gradient_clip_val={median(norms):.2g}")
    return f"lower the learning rate, or clip the gradients at their median norm: {command}"


def still_improving(evidence: Evidence) -> tuple[str, str] | None:
    """The monitored metric rises to the end by more than chance makes it differ, and training on can gain as much.

    What is left to gain is the rest of a geometric series: what the first and the second half of the late epochs have
    gained are two of its terms, and a curve that flattens out has little left.
    """
    values = evidence.monitored
    half = max(SHORTEST, len(values) // 2) // 2
    late = values[-2 * half - 1 :]
    if evidence.longer is None or len(late) <= 2 * half or not rises(late) or late[-1] < max(values):
        return None
    before, gain = late[half] - late[0], late[-1] - late[half]
    left = math.inf if gain >= before else max(gain, 0) * gain / (before - gain)
    if min(before + gain, left) <= max(by_chance(evidence, late), abs(late[-1]) * DIGIT):
        return None
    begun, ended = evidence.sign * late[0], evidence.sign * late[-1]
    what = (
        f"{evidence.monitor} still gets better at the end: {begun:.4f} to {ended:.4f} over the last {len(late)} epochs"
    )
    on = None if evidence.scheduled else evidence.commands.on(evidence.longer)
    if on is not None:
        return what, f"go on: {on}"
    return what, f"train longer: {evidence.commands.again(evidence.longer)}"


def waits_for_data(evidence: Evidence) -> tuple[str, str] | None:
    shares = [point.value for point in evidence.points.get("train/data_wait", ())]
    if not shares or median(shares) <= WAITING:
        return None
    what = f"{median(shares):.0%} of the time of training is spent waiting for data (median of train/data_wait)"
    command = evidence.commands.debug("profile")
    return what, "see which setting of the loader helps" + (f": {command}" if command else ", more num_workers first")


def whether_it_learns(evidence: Evidence) -> str:
    command = evidence.commands.debug("learning")
    return (
        f"learning rate, labels and modes are tried by: {command}"
        if command
        else "compare learning rates, look at inputs and labels"
    )


def is_loss(name: str) -> bool:
    return "loss" in name.rpartition("/")[2].lower()


RULES = (
    Rule("not-finite", not_finite),
    Rule("constant-answer", no_better_than_constant, unless=("not-finite",)),
    Rule("never-moves", never_moves, unless=("not-finite", "constant-answer")),
    Rule("validation-turns", validation_turns, unless=("not-finite", "constant-answer")),
    Rule("first-is-best", first_is_best, unless=("not-finite", "constant-answer", "validation-turns")),
    Rule("spikes", spikes, unless=("not-finite", "constant-answer")),
    Rule("still-improving", still_improving, unless=("not-finite", "validation-turns")),
    Rule("data-wait", waits_for_data),
)
