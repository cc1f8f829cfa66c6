import torch
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.instruments import Data, Form, MappedDataset, Validated, on_datasets
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    forms, inputs = data.seen.forms, data.roles.inputs  # labels may be mixed for training, and whole elsewhere
    train = {form.leaf: form for form in reversed(forms) if form.loader == "train_dataloader" and form.leaf in inputs}
    first: dict[tuple[str, str], Form] = {}
    told = set()
    for form in forms:
        key = form.loader, form.leaf
        known, other = first.setdefault(key, form), train.get(form.leaf, form)
        varies = (known.dtype, len(known.shape)) != (form.dtype, len(form.shape))
        # What has other dimensions, too, or is a mask, is another part of a sample: a second view of it, say.
        differs = other.dtype != form.dtype and len(other.shape) == len(form.shape)
        differs &= "bool" not in (other.dtype, form.dtype)
        # Where tasks take turns, some have labels, and others numbers to predict.
        is_other_task = form.leaf not in inputs and is_float(known) is not is_float(form)
        if (varies or differs) and not is_other_task and key not in told:
            told.add(key)
            seen = f"{known} in batch {known.batch}" if varies else f"{other} in {other.loader}"
            yield Hit(f"{form.leaf} is {form} here and {seen}", form.place)


def is_float(form: Form) -> bool:
    return "float" in form.dtype


class Casting(Validated):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.float())


class CastingInPlace(Validated):
    def forward(self, inputs: Tensor) -> Tensor:
        inputs.data = inputs.data.float()
        return super().forward(inputs)


class Ranking(Validated):
    """Learns of a few other items, and is validated without those that are known."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return super().training_step([batch[0] + batch[2].sum(1, keepdim=True), batch[1]], batch_idx)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/score", self(batch[0]).masked_fill(batch[2], 0.0).mean())


class InTurns(Validated):
    """Learns a class in one batch and a number in the next one."""

    def loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        known = targets.is_floating_point()
        return (answers[:, 0] - targets).square().mean() if known else super().loss(answers, targets)


def by_turns() -> DataLoader:
    return DataLoader(MappedDataset(lambda index, x, y: (x, x[0] if index // 16 % 2 else y)), 16)


def with_part(part: Tensor) -> DataLoader:
    return DataLoader(MappedDataset(lambda index, x, y: (x, y, part)), 16)


def double_from(first: int) -> DataLoader:
    return DataLoader(MappedDataset(lambda index, x, y: (x.double() if index >= first else x, y)), 16)


PROBE = Probe(
    question="Do all batches have tensors of the same dtype and number of dimensions?",
    why="the network or the criterion is given one kind of tensor and then another",
    fix=Fix("make the dataset or collate_fn return one form for every sample, in all splits"),
    aliases=("data/type-differs-between-splits",),
    detect=detect,
    faulty=on_datasets(lambda: double_from(32), lambda: double_from(0), module=Casting),
    healthy=on_datasets(lambda: double_from(0), lambda: double_from(0), module=Casting),
    also_healthy=(
        on_datasets(by_turns, module=InTurns),
        on_datasets(lambda: double_from(0), lambda: double_from(0), module=CastingInPlace),
        on_datasets(
            lambda: with_part(torch.zeros(4, dtype=torch.long)),
            lambda: with_part(torch.zeros(4, dtype=torch.bool)),
            module=Ranking,
        ),
    ),
)
