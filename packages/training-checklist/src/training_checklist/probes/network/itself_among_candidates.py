import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Step
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

ROUNDING = 64  # times the precision of the numbers: of a vector's length and of a product with itself


def detect(step: Step, limits: Limits) -> Hits:
    calls = [call for call in step.criteria.calls if call.num_classes is not None and is_square(call.input)]
    if not calls:
        raise CannotJudge("no criterion compares each sample with all of the batch")
    for call in calls:
        scores = call.input.detach()
        own = torch.arange(len(scores), device=scores.device)
        if call.target.shape == own.shape and not (call.target == own).any() and is_cosine_of_itself(scores):
            score = f"{float(scores[0, 0]):.3g}"
            yield Hit(
                f"{len(scores)} samples are most like themselves, by {score}, and are to find another", call.place
            )


def is_square(scores: Tensor) -> bool:
    return scores.ndim == 2 and len(scores) == scores.shape[1] > 2


def is_cosine_of_itself(scores: Tensor) -> bool:
    """Whether the diagonal holds one number, which is the largest of each row."""
    diagonal = scores.diagonal()
    spread = diagonal.max() - diagonal.min()
    same = bool(spread <= ROUNDING * torch.finfo(scores.dtype).eps * diagonal.abs().max())
    return same and bool((diagonal.unsqueeze(1) >= scores).all())


def to_the_next(answers: Tensor, masked: bool) -> Tensor:
    """Ask each sample which one comes next, by the cosines of its vector with all."""
    vectors = functional.normalize(answers)
    scores = vectors @ vectors.T / 0.1
    if masked:
        scores = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -torch.inf)
    return functional.cross_entropy(scores, torch.arange(len(scores)).roll(1))


def to_its_pair(answers: Tensor, labels: Tensor) -> Tensor:
    vectors = functional.normalize(answers)
    return functional.cross_entropy(vectors @ vectors.detach().T / 0.1, torch.arange(len(vectors)))


PROBE = Probe(
    question="Is a sample left out of the candidates among which its partner is to be found?",
    why="its cosine with itself is the largest whatever the network does: the loss stays above log 2, and most of its "
    "gradient pushes against a number that cannot change",
    fix=Fix(
        "mask the diagonal before the criterion: scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -inf)"
    ),
    detect=detect,
    faulty=lambda answers, labels: to_the_next(answers, masked=False),
    healthy=lambda answers, labels: to_the_next(answers, masked=True),
    also_healthy=(to_its_pair,),
)
