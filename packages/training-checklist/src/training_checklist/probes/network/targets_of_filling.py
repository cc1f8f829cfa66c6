import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    ComparedTensor,
    Example,
    Small,
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

FILLED = (
    "the inputs are filled in the same places, which the network is to predict, and so are the targets: whatever masks "
    "the ones has changed both, as where they are one array",
    Fix("mask a copy of the inputs: values.clone(), array.copy(), frame.copy()"),
)


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
            told = f"the loss depends on {number} of {leaf.numel()} numbers of {tensor.leaf}, and these are all "
            told += f"{float(values):g}; the others differ"
            yield Hit(told, tensor.where, *(FILLED if are_filled(step, tensor, reads, values) else ()))


def are_filled(step: Step, tensor: ComparedTensor, reads: Tensor, value: Tensor) -> bool:
    """Whether the inputs have that value in the same places: what is masked there is to be predicted."""
    others = [each for path, each in leaves(step.batch).items() if path != tensor.leaf]
    return any(each.shape == reads.shape and bool((each[reads] == value).all()) for each in others)


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


class Hidden(Small):
    """Predicts a number of each sample that its inputs do not show."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 16)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        hidden = batch[0] == 0.0
        return (self(batch[0]) - batch[1])[hidden].square().mean()


def masked(in_place: bool) -> DataLoader:
    """Hide a number of each sample from its inputs, and in place from the targets, too."""
    targets = 1 + torch.rand(16, 4)
    inputs = targets + 0.1 * torch.randn(16, 4)
    for each in (inputs, targets) if in_place else (inputs,):
        each[torch.arange(16), torch.arange(16) % 4] = 0.0
    return DataLoader(TensorDataset(inputs, targets), batch_size=16)


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
    also_faulty=(Example(Hidden, lambda: masked(in_place=True)),),
    healthy=of_samples(6),  # 2e-4
    also_healthy=(Example(Hidden, lambda: masked(in_place=False)),),
)
