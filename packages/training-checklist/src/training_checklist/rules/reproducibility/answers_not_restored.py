from collections.abc import Iterator
from math import isclose
from typing import Any

from training_checklist.evidence.repetition import RestoredAnswers
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

ROUNDING = 1e-6  # relative: float32 in another order of its additions


def judge(answers: RestoredAnswers, limits: Any) -> Iterator[Hit]:
    # Weights of classes and the like, which a loss alone needs, are of training.
    both = {name: (value, answers.restored.get(name, value)) for name, value in answers.trained.items()}
    moved = [name for name, pair in both.items() if "loss" not in name and not isclose(*pair, rel_tol=ROUNDING)]
    if not moved:
        return
    if not answers.lost:
        raise CannotJudge("the step also depends on numbers that are no tensors, which may be of training alone")
    name = moved[0]
    yield Hit(
        f"{name} of some samples is {answers.trained[name]:.5g} after training, and {answers.restored[name]:.5g} of a "
        f"network that is built anew and given the saved weights: {', '.join(answers.lost[:4])} is not saved",
        Place(note=", ".join(answers.lost)),
    )


RULE = Rule(
    id="reproducibility/answers-not-restored",
    item="reproducibility",
    question="Are all tensors that the trained network's outputs depend on in its checkpoint?",
    why="what a hook of training has set, and state_dict() leaves out, is not there when the checkpoint is loaded to "
    "test, predict or export",
    severity=FAILED,
    evidence=RestoredAnswers,
    judge=judge,
    fix=Fix("keep it by register_buffer(name, tensor), which is saved unless persistent=False"),
    faulty=lambda: RestoredAnswers({"val/mae": 0.8}, {"val/mae": 41.0}, ["target_mean"]),
    healthy=lambda: RestoredAnswers({"val/mae": 0.8}, {"val/mae": 0.8}, ["cache"]),
)
