from dataclasses import replace

import torch

from training_checklist.instruments import Data, Example, Tagger, on_datasets, pairs, part, tagged
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

NO_LABEL = -(2**31)


def detect(data: Data, limits: Limits) -> Hits:
    roles = data.roles
    known = pairs(part(data, data.train), replace(roles, ignored=NO_LABEL)) if roles.classes is not None else []
    if not known:
        raise CannotJudge("tokens have no labels of their own")
    labels, tokens = (torch.cat([each[number] for each in known]) for number in (0, 1))
    if roles.classes + limits.max_marks >= len(tokens.unique()):
        raise CannotJudge("labels are tokens themselves, of which padding is one, or says which are not asked for")
    left_out = labels == roles.ignored
    kinds = len(tokens[left_out].unique())
    if 0 <= roles.ignored < roles.classes and kinds > limits.max_marks:
        yield Hit(
            f"the criterion ignores label {roles.ignored}, which is one of the network's classes and the label of "
            f"{float(left_out.float().mean()):.0%} of the tokens, of {kinds} kinds",
            data.train.place.beside(note=roles.target),
        )


class Ignoring(Tagger):
    ignored = 0


def ignoring(kinds: int) -> Example:
    """Give label 0 to so many kinds of tokens."""

    def label(tokens: torch.Tensor) -> torch.Tensor:
        return torch.where((tokens >= 10) & (tokens < 10 + kinds), 0, 1 + tokens % 3)

    return on_datasets(*[lambda: tagged(label=label)] * 2, module=Ignoring)


PROBE = Probe(
    question="Is the criterion's ignore_index the label of padding and special tokens only, and not of a real class?",
    why="the network never learns the class that is ignored, and is asked for it all the same",
    severity=WARNING,
    fix=Fix("give padding a label that is no class, as -100, and the criterion that one as ignore_index"),
    detect=detect,
    faulty=ignoring(6),
    healthy=ignoring(2),
    thresholds={
        "max_marks": Threshold(3, "kinds of tokens that are no words: marks of a beginning, an end and a separation")
    },
)
