from itertools import product

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Validated, normal, on_datasets, shared_samples
from training_checklist.probe import REMARK, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

WATCHED = "validation has another loader, by which epochs can be chosen, and this one shows how the test set does"
TO_CHOOSE = Fix("let callbacks and schedules monitor a metric of the other loader; add_dataloader_idx names it")


def detect(data: Data, limits: Limits) -> Hits:
    by_stage = [[split for split in data.held_out if split.stage == stage] for stage in ("val", "test")]
    if not all(by_stage):
        raise CannotJudge("not both validation and testing have samples")
    hits, apart = [], set()
    for validated, tested in product(*by_stage):
        found = shared_samples(data, validated, tested)
        if not found.repeatable and found.shared > limits.max_tested_again * found.total:
            text = f"{found.shared} of {found.total} samples of {tested.name} are those of {validated.name}"
            is_gallery = validated.of_several and found.shared == found.total
            hits.append((tested, is_gallery, text))
        elif not found.shared:
            apart.add(tested.name)
    # Beside queries of its own, a loader may give what both compare their queries with.
    has_own = len({tested.name for tested, _, _ in hits}) < len(by_stage[1])
    for tested, is_gallery, text in hits:
        if is_gallery and tested.name in apart:
            yield Hit(text, tested.place, WATCHED, TO_CHOOSE, REMARK)
        elif not (is_gallery and has_own):
            yield Hit(text, tested.place)


def with_duplicates(number: int, of: int) -> Example:
    """Test with so many copies of samples that are validated with, among others."""
    held, test = normal(160, 8), normal(of, 8, seed=1)
    test[:number] = held[:number]
    held, test = ((each, (each[:, 0] > 0).long()) for each in (held, test))
    return on_datasets(held_out=lambda: TensorDataset(*held), test=lambda: TensorDataset(*test))


def images(shared: int) -> Example:
    """Test with images as files hold them, of which so many in 100 are those of validation."""

    def drawn(seed: int) -> Tensor:
        return torch.randint(256, (100, 3, 6, 6), generator=torch.Generator().manual_seed(seed)).byte()

    def split(images: Tensor) -> TensorDataset:
        return TensorDataset(images, torch.arange(100) % 4)

    def tested() -> TensorDataset:
        return split(torch.cat([drawn(0)[:shared], drawn(1)[shared:]]))

    return on_datasets(held_out=lambda: split(drawn(0)), test=tested, module=OfBytes)


class OfBytes(Validated):
    """Takes images of bytes."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.flatten(1)[:, :8].float() / 255)


PROBE = Probe(
    question="Are test samples absent from the validation set?",
    why="epochs, rates and networks are chosen by validation, so that the score of the same samples is too good",
    severity=WARNING,
    may_be_wrong="a project without a test set may name validation twice and say so",
    fix=Fix("give test_dataloader a split of its own; where there is none, leave test_dataloader out"),
    detect=detect,
    faulty=with_duplicates(2, of=100),
    also_faulty=(images(2),),
    healthy=with_duplicates(1, of=200),
    also_healthy=(images(1),),
    thresholds={
        "max_tested_again": Threshold(
            0.01, "share of the test set with an exact copy among the others, as for training samples (shared-samples)"
        )
    },
)
