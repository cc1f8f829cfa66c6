from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Form, Forms
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(forms: Forms, limits: Any) -> Iterator[Hit]:
    first: dict[tuple[str, str], Form] = {}
    told = set()
    for form in forms.seen:
        known = first.setdefault((form.loader, form.leaf), form)
        same = known.dtype == form.dtype and len(known.shape) == len(form.shape)
        if not same and (form.loader, form.leaf) not in told:
            told.add((form.loader, form.leaf))
            yield Hit(f"{form.leaf} is {form} here and {known} in batch {known.batch}", form.place)


RULE = Rule(
    id="data/form-varies",
    item="limit_batches",
    question="Do the batches of a loader have one type and one number of dimensions?",
    why="the network or the criterion is given one kind of tensor and then another",
    severity=FAILED,
    evidence=Forms,
    judge=judge,
    fix=Fix("make the dataset or collate_fn return one form for every sample"),
    faulty=lambda: Forms(
        [
            Form("train_dataloader", 0, "batch[0]", "float32", (16, 8)),
            Form("train_dataloader", 3, "batch[0]", "float64", (16, 8)),
        ],
        frozenset({"batch[0]"}),
    ),
    healthy=lambda: Forms(
        [
            Form("train_dataloader", 0, "batch[0]", "float32", (16, 3, 80, 80)),
            Form("train_dataloader", 3, "batch[0]", "float32", (10, 3, 96, 96)),
        ],
        frozenset({"batch[0]"}),
    ),
)
