from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Form, Forms
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(forms: Forms, limits: Any) -> Iterator[Hit]:
    train = {form.leaf: form for form in reversed(forms.seen) if form.loader == "train_dataloader"}
    told = set()
    for form in forms.seen:
        # Inputs alone: labels may be mixed for training, and whole for validation.
        known = train.get(form.leaf) if form.leaf in forms.inputs else None
        if known is not None and known.dtype != form.dtype and (form.loader, form.leaf) not in told:
            told.add((form.loader, form.leaf))
            if form.loader != known.loader:
                yield Hit(f"{form.leaf} is {form} here and {known} in {known.loader}", form.place)


RULE = Rule(
    id="data/type-differs-between-splits",
    item="limit_batches",
    question="Do inputs have the same type in all splits?",
    why="the network is trained on inputs of one kind and validated on another",
    severity=FAILED,
    evidence=Forms,
    judge=judge,
    fix=Fix("let both splits go through the same conversions"),
    faulty=lambda: Forms(
        [
            Form("train_dataloader", 0, "batch[0]", "float32", (16, 8)),
            Form("val_dataloader", 0, "batch[0]", "float64", (16, 8)),
        ],
        frozenset({"batch[0]"}),
    ),
    healthy=lambda: Forms(
        [
            Form("train_dataloader", 0, "batch[1]", "float32", (16, 4)),
            Form("val_dataloader", 0, "batch[1]", "int64", (16,)),
        ],
        frozenset({"batch[0]"}),
    ),
)
