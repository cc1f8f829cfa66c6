import math
import re

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from torchmetrics import MaxMetric, MeanAbsoluteError
from torchmetrics.classification import MulticlassAccuracy

from training_checklist.instruments import (
    Answered,
    Example,
    Validated,
    answered_steps,
    loader,
    of_each,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

# By the words in the name that a value is logged under; what else is a part of it decides nothing, but for "loss".
BEST = dict.fromkeys(
    ("acc", "accuracy", "f1", "f1score", "precision", "recall", "iou", "miou", "jaccard", "dice", "r2", "r2score"), 1.0
) | dict.fromkeys(("mae", "mse", "rmse", "error", "err"), 0.0)
OVERLAPS = {"iou", "miou", "jaccard", "dice"}  # a term of a loss has such a name, too, and is 1 less the overlap
OF_BAYES = {"prior", "posterior"}  # whose precision is one over the variance
MOST = 1e3  # that a percentage comes to, or a count of what is right in a batch
ROUNDING = 1e-3  # of one over what is next to nothing
# Of a ranking's first places, which hold fewer labels than there are, or more; and of a class that may be absent.
OF_SOME = re.compile(r"(?:precision|recall|f1)[-_/ ]?(?:@|at_|top)?[-_]?(?:k\b|\d)")
UNITS = (1.0, 100.0)  # of a share, and of percent


@of_each(answered_steps, "no step could be taken with other answers")
def detect(answered: Answered, limits: Limits) -> Hits:
    counted = answered.counting_ignored  # which is said of them
    known = {name: best for name in answered.right if (best := best_of(name)) is not None and name not in counted}
    # An error that is called an accuracy is told by its mode; and what is made of it, as val/acc_best, follows.
    known = {name: best for name, best in known.items() if not name.startswith(tuple(answered.misnamed))}
    if not known:
        raise CannotJudge(f"{answered.step} logs nothing that is named as a metric whose best value is known")
    changing = {name for name in known if changes(answered, name, limits)}
    for name, best in known.items():
        right, wrong = answered.right[name], answered.wrong.get(name)
        if name in changing and OVERLAPS & set(words_of(name)) and abs(right) <= limits.from_best:
            continue
        most = limits.from_best if best else limits.decoded
        near = any(abs(right - best * unit) <= most * scale_of(best, unit, wrong) for unit in UNITS)
        if name in changing and not near and not (best and is_reciprocal(right)):
            yield Hit(
                f"{name} is {right:.4g} where each answer is the very one that the criterion asks for: the best is "
                f"{best:g}",
                answered.place.beside(function=answered.step, note=name),
            )
        # What alone does not change may be of another network, such as an average of this one, and what does not
        # change at all, of something else that the network has made, of its answers or before them.
        elif (
            name not in changing
            and answered.alone
            and answered.of_others.isdisjoint(known)
            and (near or (not changing and (not best or 0 <= right <= 1)))
        ):
            yield Hit(
                f"{name} is {right:.4g} where each answer is right, and {wrong:.4g} where each is wrong",
                answered.place.beside(function=answered.step, note=name),
            )


def changes(answered: Answered, name: str, limits: Limits) -> bool:
    """Whether a metric is another number where answers are wrong."""
    right, wrong = answered.right[name], answered.wrong.get(name)
    return wrong is None or abs(right - wrong) > limits.from_best * abs(right)


def is_reciprocal(value: float) -> bool:
    """Whether a value is a power of ten that no share is: one over an error of 0, to which 1e-6 was added."""
    return value > MOST and math.isclose(value, 10 ** round(math.log10(value)), rel_tol=ROUNDING)


def scale_of(best: float, unit: float, wrong: float | None) -> float:
    """Return what an error is measured by: the range of a share, or the error of wrong answers."""
    return unit if best else abs(wrong or 1.0)


def words_of(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def best_of(name: str) -> float | None:
    words = words_of(name)
    found = {BEST[word] for word in words if word in BEST}
    is_other = any("loss" in word or word in OF_BAYES for word in words) or OF_SOME.search(name.lower())
    return found.pop() if len(found) == 1 and not is_other else None


def accurate(factor: float, name: str = "acc", best: float = 0) -> type[Validated]:
    class Accurate(Validated):
        def validation_step(self, batch: list, batch_idx: int) -> None:
            answers, labels = self(batch[0]), batch[1]
            self.loss(answers, labels)
            self.log(f"val/{name}", abs(best - factor * (answers.argmax(1) == labels).float().mean()))

    return Accurate


class Reciprocal(Validated):
    """Calls one over its loss an accuracy."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.log("val/acc", 1 / (self.loss(self(batch[0]), batch[1]) + 1e-6))


class OfLatents(Validated):
    """Logs something of what its first layer makes, under the name of a metric."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.loss(self(batch[0]), batch[1])
        self.log("val/r2", self.first(batch[0]).sigmoid().mean())


class ErrorOfClasses(Validated):
    """Calls an error an accuracy, beside a true one."""

    def __init__(self) -> None:
        super().__init__()
        self.val_acc, self.val_acc_best = MeanAbsoluteError(), MaxMetric()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        answers = self(batch[0])
        self.loss(answers, batch[1])
        self.val_acc(answers.softmax(1), functional.one_hot(batch[1], answers.shape[1]))
        self.log("val/acc", self.val_acc)
        self.log("val/f1", (answers.argmax(1) == batch[1]).float().mean())

    def on_validation_epoch_end(self) -> None:
        self.val_acc_best(self.val_acc.compute())
        self.log("val/acc_best", self.val_acc_best.compute())


class OfFirstPlaces(Validated):
    """Ranks labels, of which a sample has one or two, and looks at the first two places."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(answers, self.several(labels))

    def several(self, labels: Tensor) -> Tensor:
        return functional.one_hot(labels, 4).float().index_fill(1, torch.tensor(0), 1.0)

    def validation_step(self, batch: list, batch_idx: int) -> None:
        answers, labels = self(batch[0]), self.several(batch[1])
        self.loss(answers, batch[1])
        self.log("val/acc", ((answers > 0) == labels).float().mean())
        self.log("val/precision@2", labels.gather(1, answers.topk(2).indices).mean())


class OverLoaders(Validated):
    """Logs the mean accuracy of two loaders of validation."""

    def __init__(self) -> None:
        super().__init__()
        self.accuracies = nn.ModuleList(MulticlassAccuracy(4) for _ in range(2))

    train_dataloader = staticmethod(loader)

    def val_dataloader(self) -> list[DataLoader]:
        return [loader(), loader()]

    def validation_step(self, batch: list, batch_idx: int, dataloader_idx: int = 0) -> None:
        answers = self(batch[0])
        self.loss(answers, batch[1])
        self.accuracies[dataloader_idx].update(answers, batch[1])
        self.log("f1", (answers.argmax(1) == batch[1]).float().mean())

    def on_validation_epoch_end(self) -> None:
        self.log("val/acc", sum(each.compute() for each in self.accuracies) / 2)


class Classified(nn.Module):
    """Returns its classes beside its scores."""

    def __init__(self, scores: nn.Module) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        scores = self.scores(inputs).log_softmax(1)
        return {"scores": scores, "classes": scores.argmax(1)}


class OfClasses(Validated):
    def __init__(self) -> None:
        super().__init__()
        self.net = Classified(nn.Sequential(self.first, self.head))

    def step(self, batch: list, batch_idx: int) -> Tensor:
        answers = self.net(batch[0])
        self.log("acc", (answers["classes"] == batch[1]).float().mean())
        return nn.functional.nll_loss(answers["scores"], batch[1])

    training_step = validation_step = step


PROBE = Probe(
    question="Does each metric reach its best value when all predictions are right?",
    why="the metric looks at something else than the criterion, in another unit, or along another dimension",
    detect=detect,
    may_be_wrong="where targets are mixed or noisy on purpose, as by mixup, a metric may be one of the unmixed labels",
    fix=Fix("give the metric the answers and targets that the criterion gets: of classes, argmax(dim=1)"),
    thresholds={
        "from_best": Threshold(
            0.01,
            "of the range: what is added to denominators lest they be 0 moves shares by less than that",
            factor=2.0,
        ),
        "decoded": Threshold(
            0.2,
            "of the error of wrong answers: what is read out of a heatmap or of bins is a quarter of a cell off, and "
            "wrong answers are some cells",
            factor=1.4,
            faulty=accurate(0.76, "error", best=1),
            healthy=accurate(0.84, "error", best=1),
        ),
    },
    faulty=accurate(0.985),
    healthy=accurate(0.993),
    also_healthy=(
        *(accurate(1, "dice", best=1), Reciprocal, OfClasses, OfLatents, ErrorOfClasses, OfFirstPlaces),
        Example(OverLoaders, None),
    ),
)
