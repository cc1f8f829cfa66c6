import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    ComparedTensor,
    Example,
    Step,
    compared_tensors,
    isolate_rng,
    leaves,
    look,
    project,
    replaced,
    seed_all,
    slopes,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(step: Step, limits: Limits) -> Hits:
    known = [(tensor, read_of(step, tensor)) for tensor in compared_tensors(step) if tensor.belongs]
    if all(reads is None for _, reads in known):
        raise CannotJudge("the loss has no gradient with respect to what it compares with")
    for tensor, reads in known:
        if reads is None:
            continue
        leaf = leaves(step.batch)[tensor.leaf]
        values, number = leaf[reads].unique(), int(reads.sum())
        if len(values) != 1 or number == leaf.numel():
            continue
        share = float((leaf == values).float().mean())
        if share < 1 and share**number < limits.max_chance and reads_no_other(step, tensor, reads, values):
            yield Hit(
                f"the loss depends on {number} of {leaf.numel()} numbers of {tensor.leaf}, and these are all "
                f"{float(values):g}; the others differ",
                tensor.where,
            )


def read_of(step: Step, tensor: ComparedTensor) -> Tensor | None:
    """Return which numbers of a tensor the loss of the whole batch depends on, by its gradient; None if it has none."""
    leaf = leaves(step.batch)[tensor.leaf]
    if not leaf.is_floating_point() or not leaf.isfinite().all():
        return None
    given = leaf.detach().clone().requires_grad_()
    with isolate_rng(), torch.enable_grad():
        seed_all()
        loss = look(step, training=True).loss_of(replaced(step.batch, {tensor.leaf: given}))
        [slope] = slopes(loss, [given]) if loss.requires_grad else [None]
    return None if slope is None or not slope.isfinite().all() else slope != 0


def reads_no_other(step: Step, tensor: ComparedTensor, reads: Tensor, value: Tensor) -> bool:
    """Whether the loss stays where that value stands in place of all others: a clamp reads without a slope."""
    leaf, losses = leaves(step.batch)[tensor.leaf], []
    for each in (leaf, torch.where(reads, leaf, value)):
        with isolate_rng(), torch.no_grad():
            seed_all()
            losses.append(float(look(step, training=True).loss_of(replaced(step.batch, {tensor.leaf: each}))))
    return losses[0] == losses[1]


def loader() -> DataLoader:
    """Load targets of which a quarter is 0: the first of the first 7 samples, and the second of 9 others."""
    targets = 1 + torch.rand(16, 4)
    targets[:7, 0] = targets[7:, 1] = 0.0
    return DataLoader(TensorDataset(torch.randn(16, 8), targets), batch_size=16)


def of_samples(number: int) -> Example:
    """Return one whose loss reads the first target of so many samples."""
    module = project(lambda answers, targets: (answers - targets)[:number, 0].square().mean()).module
    return Example(module, loader)


PROBE = Probe(
    question="Does the loss compare with measured targets, and not only with the value that fills in missing ones?",
    why="the network learns the fill value, and nothing of the targets that are there: the mask that selects them is "
    "inverted",
    fix=Fix("invert the mask where it is made, or where the loss takes it"),
    thresholds={
        "max_chance": Threshold(
            1e-4,
            "that as many numbers are all this one by chance, at its share of all: once in 10,000 batches",
            factor=10.0,
        )
    },
    detect=detect,
    faulty=of_samples(7),  # a chance of 6e-5
    healthy=of_samples(6),  # 2e-4
)
