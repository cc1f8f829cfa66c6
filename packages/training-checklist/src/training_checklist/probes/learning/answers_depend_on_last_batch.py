import time
from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    TwoEpochs,
    Validated,
    call_step,
    heard_answers,
    isolate_rng,
    logged_by,
    of_function,
    of_the_project,
    seed_all,
    stand_in,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

SAMPLES = 16  # of a batch, at most


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    split = run.indexed("val")
    chosen, until = split.chosen(2 * SAMPLES), time.monotonic() + run.options["seconds"]
    half = len(chosen) // 2
    if not half:
        raise CannotJudge("validation has a single sample")
    with of_the_project("validation_step, taken again,"):
        parts = chosen[:half], chosen[half : 2 * half]
        batch, other = (got for part in parts for _, got in split.fetch(part, run.trainer, until, half))
        alone, again, after = (last_answers(run, *given) for given in ([batch], [batch], [other, batch]))
    if not alone or alone != again:
        raise CannotJudge("validation_step does not repeat what it does")
    if alone != after:
        # What hooks set back where an epoch begins or ends goes on within it on purpose: parts of one long sequence.
        with of_the_project("validation_step, taken again in two epochs,"):
            if epochs_apart(run, batch) == epochs_apart(run, other, batch):
                return
        yield Hit(
            "layers answer otherwise to a batch of validation when another batch came before it, with the same "
            "weights and random numbers: something is carried over from one batch to the next",
            of_function(type(run.pl_module).validation_step),
        )


@torch.no_grad()
def last_answers(run: TwoEpochs, *batches: Any) -> list[str]:
    """Return fingerprints of what the layers of a copy answer to the last of some batches."""
    copy = stand_in(run.pl_module, run.trainer).eval()
    for batch in batches:
        with isolate_rng(), heard_answers(copy) as seen:
            seed_all()
            call_step(copy, "validation_step", batch)
    return seen


@torch.no_grad()
def epochs_apart(run: TwoEpochs, *batches: Any) -> list[str]:
    """Return the same where each batch has an epoch of its own."""
    copy = stand_in(run.pl_module, run.trainer).eval()
    for batch in batches:
        with heard_answers(copy) as seen:
            logged_by(copy, "val", batch)
    return seen


class Carrying(Validated):
    """A network with a state that goes from one batch to the next."""

    kept, carries = 0.0, True

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs) + self.kept
        self.kept = hidden.detach().mean(0) if self.carries else 0.0
        return self.head(torch.relu(hidden))


class InParts(Carrying):
    """Begins each epoch anew: its batches are parts of one sequence, one after the other."""

    def on_validation_epoch_start(self) -> None:
        self.kept = 0.0


PROBE = Probe(
    question="Are the outputs for a validation batch the same, whatever batch came before it?",
    why="a hidden state of other samples, or something kept from the last batch, enters the answers",
    detect=detect,
    fix=Fix("begin each batch with a state of its own, or with zeros; look for what forward() keeps on self"),
    faulty=Carrying,
    healthy=type("Anew", (Carrying,), {"carries": False}),
    also_healthy=(InParts,),
)
