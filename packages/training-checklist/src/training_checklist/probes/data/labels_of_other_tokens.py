import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from training_checklist.instruments import (
    LEAST,
    Data,
    Example,
    Tagger,
    confusion_of_tokens,
    halves,
    on_datasets,
    pairs,
    part,
    tagged,
    words,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

SHIFTS = (-2, -1, 0, 1, 2)  # a mark in front or at the end, and both


def detect(data: Data, limits: Limits) -> Hits:
    """See how well tokens at some distances tell whether a label is the most frequent one."""
    own, roles = part(data, data.train), data.roles
    known = pairs(own, roles) if roles.classes is not None and roles.target not in roles.tables else []
    labels = torch.cat([each for each, _ in known]) if known else torch.tensor([])
    if len(labels) < LEAST:
        raise CannotJudge("tokens have no labels of their own")
    most, errors = labels.mode().values, {}
    for shift in SHIFTS:
        one, two = (
            [((each == most).long(), tokens) for each, tokens in half] for half in halves(pairs(own, roles, shift))
        )
        table = confusion_of_tokens(one, two, 2)
        errors[shift] = 1 - float(table.diagonal().sum() / table.sum().clamp_min(1))
    best = min(errors, key=errors.__getitem__)
    fewer = (errors[0] - errors[best]) * len(labels)
    if best and are_tokens(*zip(*pairs(own, roles, best), strict=True)):
        return  # the next ones, which a language model is asked for
    if best and errors[best] <= limits.of_errors * errors[0] and fewer > limits.more_errors:
        yield Hit(
            f"{roles.target} belongs to the tokens {abs(best)} {'after' if best > 0 else 'before'} those at its place: "
            f"they tell all but {errors[best]:.1%} of the labels, and {words(roles)} at the same place all but "
            f"{errors[0]:.1%}",
            data.train.place_of("__getitem__").beside(note=roles.target),
        )


def are_tokens(labels: tuple[Tensor, ...], tokens: tuple[Tensor, ...]) -> bool:
    same = torch.cat([one == other for one, other in zip(labels, tokens, strict=True)])
    return 2 * int(same.sum()) > len(same)


def moved(by: int, noise: float, tags: int = 2000, alike: float = 0.0) -> Example:
    """Give each token of texts the label of one before it, to some of them a label by chance.

    Args:
        tags: how many tokens have a label; the criterion ignores the others.
        alike: share of labels that belong to the token itself all the same.
    """

    def label(tokens: Tensor) -> Tensor:
        drawn = torch.rand(tokens.shape)
        own = (tokens.roll(by, 1) % 2).where(drawn >= alike, tokens % 2)
        labels = own.where(torch.rand(tokens.shape) >= noise, 1 - own)
        return labels.where(torch.rand(tokens.shape) < tags / tokens.numel(), -100)

    return on_datasets(*[lambda: tagged(16, label=label, length=24)] * 2, module=Tagger)


class LanguageModel(Tagger):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, self.words)


def next_tokens() -> TensorDataset:
    return tagged(16, label=lambda tokens: tokens.roll(-1, 1), length=24)


PROBE = Probe(
    question="Does each label of a token stand at the position of its token?",
    why="a special token was put in front of the tokens, or a part was cut off, and not in the same way of their "
    "labels",
    fix=Fix(
        "add special tokens, cut and pad tokens and labels in one function, with ignore_index as the label of each "
        "special token"
    ),
    detect=detect,
    faulty=moved(1, noise=0.0),
    healthy=moved(0, noise=0.0),
    also_healthy=(on_datasets(*[next_tokens] * 2, module=LanguageModel),),
    thresholds={
        "of_errors": Threshold(
            1 / 3,
            "of the errors: a word in front, such as a preposition, tells a label nearly as well as its own",
            faulty=moved(1, noise=0.08),
            healthy=moved(1, noise=0.0, alike=0.3),
        ),
        "more_errors": Threshold(
            30,
            "labels: fewer may be told by chance, as texts often repeat a few sentences",
            faulty=moved(1, noise=0.0, tags=120),
            healthy=moved(1, noise=0.0, tags=65, alike=0.1),
        ),
    },
)
