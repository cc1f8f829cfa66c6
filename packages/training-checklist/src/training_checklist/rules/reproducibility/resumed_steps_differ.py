from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import FurtherStep, FurtherSteps
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(steps: FurtherSteps, limits: Any) -> Iterator[Hit]:
    parting = steps.parting()
    if parting is not None and not parting.lost:
        yield Hit(
            f"a resumed run goes another way in step {parting.step}, though it is given the same batches and random "
            f"numbers: {parting.what}",
            steps.place.beside(note="or a hook or callback around it"),
        )


RULE = Rule(
    id="reproducibility/resumed-steps-differ",
    item="reproducibility",
    question="Does a resumed run take the same steps as a run that was not interrupted?",
    why="a step depends on something beside batch, weights, random numbers and plain attributes, and it begins anew "
    "when training is resumed",
    severity=WARNING,
    evidence=FurtherSteps,
    judge=judge,
    fix=Fix("look at what the step reads beside the batch, and save it in on_save_checkpoint"),
    faulty=lambda: FurtherSteps([FurtherStep([], [], {}, loss=1.0)], [FurtherStep([], [], {}, loss=2.0)]),
    healthy=lambda: FurtherSteps([FurtherStep([], [], {}, loss=1.0)], [FurtherStep([], [], {}, loss=1.0)]),
)
