import torch

from training_checklist.instruments import Data, Example, Split, Tagger, on_datasets, part, tagged, tokens_of
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Look at the token whose share is most above that in training."""
    judged = False
    for place, rows in data.roles.tables.items():
        one, two = tokens_of(part(data, data.train), part(data, split), place=place)
        if not len(one) or not len(two) or int(min(one.min(), two.min())) < 0:
            continue
        judged, size = True, max(rows, int(one.max()) + 1, int(two.max()) + 1)
        train, held = (torch.bincount(each.long(), minlength=size) / len(each) for each in (one, two))
        token = int((held - train).argmax())
        if rows < limits.min_tokens:
            continue
        if held[token] > limits.min_share_held_out and held[token] > limits.times_as_often * train[token]:
            yield Hit(
                f"token {token} is {held[token]:.0%} of the tokens of {split.name} in {place}, and "
                f"{train[token]:.1%} in training",
                split.place.beside(note=place),
            )
    if not judged:
        raise CannotJudge("no texts enter the network")


def often(train: float, held: float) -> Example:
    return on_datasets(lambda: tagged(often=train), lambda: tagged(often=held), module=Tagger)


class Fewer(Tagger):
    """Looks up what may be months, of which another one comes after those of training."""

    words = 40


PROBE = Probe(
    question="Does each token make up about the same share of the held-out texts as of the training texts?",
    why="if this is the token for unknown words, held-out texts are cleaned, split or encoded otherwise than the texts "
    "that the vocabulary was made of",
    severity=WARNING,
    fix=Fix("look up what the token stands for; clean and encode all texts by one function"),
    detect=detect,
    faulty=often(0.0, 0.2),
    healthy=often(0.0, 0.06),
    thresholds={
        "min_tokens": Threshold(
            100,
            "rows: of few kinds of tokens, as in DNA or music, one may be most of them",
            healthy=on_datasets(lambda: tagged(40, 0.0), lambda: tagged(40, 0.2), module=Fewer),
        ),
        "min_share_held_out": Threshold(
            0.1, "of the tokens: of words that stand once in a text, a vocabulary of its half misses about so many"
        ),
        "times_as_often": Threshold(
            3,
            "as in training: words of one topic are twice as frequent in texts about it",
            faulty=often(0.08, 0.4),
            healthy=often(0.2, 0.4),
        ),
    },
)
