"""Whether what validation answers to a batch depends on the batch before it."""

from typing import Any

import torch

from training_checklist.engines.compared import answers
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import call_step, seed_all
from training_checklist.engines.splits import Split
from training_checklist.engines.stand_in import stand_in
from training_checklist.evidence.answers import AfterAnother
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

SAMPLES = 16  # of a batch


def after_another(split: Split, trainer: Trainer, pl_module: LightningModule, until: float) -> AfterAnother | None:
    """Take the validation step of a batch by itself, and after that of another one; None where it does not repeat."""
    chosen = split.chosen(2 * SAMPLES) if split.indexable else []
    if len(chosen) < 2 * SAMPLES:
        return None
    batch, other = (
        batch
        for part in (chosen[:SAMPLES], chosen[SAMPLES:])
        for _, batch in split.fetch(part, trainer, until, SAMPLES)
    )
    alone, again, after = (answered(pl_module, trainer, *given) for given in ([batch], [batch], [other, batch]))
    if not alone or alone != again:
        return None
    return AfterAnother(alone != after, of_function(type(pl_module).validation_step))


@torch.no_grad()
def answered(pl_module: LightningModule, trainer: Trainer, *batches: Any) -> list[str]:
    """Return fingerprints of what the layers of a copy answer to the last of some batches."""
    copy = stand_in(pl_module, trainer).eval()
    for batch in batches:
        with isolate_rng(), answers(copy) as seen:
            seed_all()
            call_step(copy, "validation_step", batch)
    return seen
