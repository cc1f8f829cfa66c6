from dataclasses import replace

import torch
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    Example,
    TwoEpochs,
    labelled,
    labels_of_copies,
    with_sgd,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    labels = labels_of_copies(run)
    if labels.known < limits.min_known and not labels.learnt and labels.unseen < limits.max_unseen:
        raise CannotJudge(
            f"the loss on {labels.batches} batches did not fall to half, of its first and that for exchanged labels, "
            f"in steps or time: {labels.course}"
        )
    # Where exchanging says nothing about what was learnt, it says nothing about the rest.
    if labels.known >= limits.min_known and labels.unseen < limits.max_unseen:
        by_heart = "by heart" if labels.learnt else f"in part ({labels.known:.1f} standard deviations)"
        yield Hit(
            f"the network learns {labels.batches} batches {by_heart}, loss {labels.course}, but on samples that it has "
            f"not seen it does as well with exchanged labels ({labels.unseen:.1f} standard deviations), and no better "
            "than one answer for all",
            Place(loader="train_dataloader", note="labels"),
        )


def drawn(share: float, steps: int = 200, samples: int = 64, rate: float = 0.1) -> Example:
    """Draw so large a share of the labels at random."""

    def samples_with_noise() -> TensorDataset:
        inputs, labels = labelled(256).tensors
        drawn = torch.rand(256) < share
        return TensorDataset(inputs, torch.where(drawn, torch.randint(4, (256,)), labels))

    many = {"samples": samples, "steps": 20, "max_steps": steps}
    return replace(with_sgd(rate=rate), loader=lambda: DataLoader(samples_with_noise(), 16), item=many)


PROBE = Probe(
    question="Do the labels depend on the inputs, so that right ones are learned faster than shuffled ones?",
    why="what is learnt of some samples says nothing about the labels of others: a network fed zeros would be as good",
    severity=WARNING,
    may_be_wrong="a network that knows nothing of pictures may learn so few of them by heart and see no more in them: "
    "with meaning in the labels, validation gets better in a longer training",
    detect=detect,
    fix=Fix("look at inputs beside their labels", items=("limit_batches",)),
    thresholds={
        "samples_per_class": Threshold(
            10,
            "samples below which a class cannot be learnt from so few: ten events a variable are a regression's least "
            "(Peduzzi et al., 1996)",
            factor=2.0,
            healthy=drawn(1.0, samples=32, rate=0.5),
        ),
        "min_known": Threshold(
            4.0,
            "standard deviations; by chance less than once in 2,000 (Student's t of 20 exchanges)",
            factor=1.5,
            healthy=drawn(1.0, steps=60),
        ),
        "max_unseen": Threshold(
            2.0,
            "standard deviations, below which chance stays in 97 of 100 cases (Student's t of 20 exchanges)",
            factor=2.0,
            faulty=drawn(0.82),
            healthy=drawn(0.75),
        ),
    },
    faulty=drawn(1.0),
    healthy=drawn(0.0),
)
