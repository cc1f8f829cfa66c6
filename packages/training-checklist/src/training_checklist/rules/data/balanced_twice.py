from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import ClassWeights
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(classes: ClassWeights, limits: Any) -> Iterator[Hit]:
    if not classes.whole or min(classes.whole) == 0 or sum(classes.counts) == 0:
        raise CannotJudge("not all labels of the training set are known")
    often, rare = (choose(range(len(classes.whole)), key=classes.whole.__getitem__) for choose in (max, min))
    uneven = classes.whole[often] / classes.whole[rare]
    if uneven < limits.uneven or classes.counts[rare] < limits.seen:
        return
    drawn = classes.counts[often] / classes.counts[rare]
    weighted = classes.weights[rare] / max(classes.weights[often], 1e-12)
    drawn_evenly = drawn < uneven / limits.drawn_evenly
    if drawn_evenly and weighted / max(drawn, 1 / sum(classes.counts)) > limits.beyond_balance:
        yield Hit(
            f"class {rare} is {uneven:.3g} times as rare as class {often} in the training set; in batches it is "
            f"{drawn:.2g} times as rare, and {classes.criterion} gives it {weighted:.3g} times the weight besides",
            classes.place.beside(loader="train_dataloader"),
        )


RULE = Rule(
    id="data/balanced-twice",
    item="limit_batches",
    question="Is an uneven distribution of classes made up for once, and not twice?",
    why="rare classes count as much more as they counted less: the network answers them too often",
    severity=WARNING,
    evidence=ClassWeights,
    judge=judge,
    fix=Fix("draw samples by their class, or weigh classes in the criterion: one of the two"),
    faulty=lambda: ClassWeights("cross_entropy", [0.2, 1.8], [160, 160], whole=[900, 100]),
    healthy=lambda: ClassWeights("cross_entropy", [0.2, 1.8], [288, 32], whole=[900, 100]),
    thresholds={
        "drawn_evenly": Threshold(2.0, "times as often as in the training set: as a sampler by class draws rare ones"),
        "beyond_balance": Threshold(2.0, "times as much as the frequent class: labels are known to a third at least"),
        "uneven": Threshold(3.0, "times as rare; of classes that are nearer to each other a few batches tell nothing"),
        "seen": Threshold(10, "labels of the rarest class in the batches; their number is known to a third then"),
    },
)
