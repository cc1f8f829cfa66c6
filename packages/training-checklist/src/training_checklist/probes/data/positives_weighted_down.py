import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader

from training_checklist.instruments import CHANCE, Data, Example, Validated, at_least, at_most, labelled, on_datasets
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    known = data.seen.positives.found.values()
    if not known:
        raise CannotJudge("no criterion is given pos_weight")
    for outputs in known:
        against = []
        for number, (weight, positives) in enumerate(zip(outputs.weights, outputs.positives, strict=True)):
            # A weight of no such share may be chosen, for fewer false alarms, say.
            share = positives / max(outputs.labels - positives, 1)
            if weight != 1 and not share / limits.near < weight < share * limits.near:
                continue
            rare = at_most(positives, outputs.labels, 0.5) < CHANCE
            frequent = at_least(positives, outputs.labels, 0.5) < CHANCE
            if (rare and weight > 1) or (frequent and weight < 1):
                against = []
                break
            against += [number] if (rare and weight < 1) or (frequent and weight > 1) else []
        if against:
            worst = max(against, key=lambda number: abs(outputs.positives[number] / outputs.labels - 0.5))
            share = outputs.positives[worst] / outputs.labels
            side, less = ("rare", "less") if share < 0.5 else ("frequent", "more")
            yield Hit(
                f"pos_weight makes the {side} side of the labels count for {less}: {100 * share:.3g}% of output "
                f"{worst} are positive, and their weight is {outputs.weights[worst]:.3g}",
                outputs.place,
            )


class Weighted(Validated):
    """Each class is told from all others."""

    weight = 1 / 3

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        targets, weights = functional.one_hot(labels, 4).float(), torch.full((4,), self.weight)
        return functional.binary_cross_entropy_with_logits(answers, targets, pos_weight=weights)


class Balanced(Weighted):
    weight = 3.0


def example(module: type) -> Example:
    return on_datasets(lambda: DataLoader(labelled(320), 64), module=module)


PROBE = Probe(
    question="Does pos_weight make rare positives count for more, and not for less?",
    why="torch multiplies the loss of positives by pos_weight: negatives / positives gives both sides the same weight, "
    "and its inverse makes the network neglect rare positives all the more",
    severity=WARNING,
    fix=Fix("pos_weight = negatives / positives, for each output"),
    detect=detect,
    faulty=example(Weighted),
    healthy=example(Balanced),
    thresholds={
        "near": Threshold(
            2.0,
            "times or a part of positives / negatives: as the positives are to all samples, 0.5 for 0.5, is in, and a "
            "half, for which torch's documentation says that precision grows, is out from a fifth of positives down",
            factor=1.4,
            faulty=example(type("ByShares", (Weighted,), {"weight": 0.19})),
            healthy=example(type("Precise", (Weighted,), {"weight": 0.8})),
        )
    },
)
