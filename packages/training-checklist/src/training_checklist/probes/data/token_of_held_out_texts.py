import torch
from torch import Tensor
from torch.utils.data import TensorDataset

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
        judged = True
        if not is_text(part(data, data.train).chunks[place]):
            continue  # but the month, or the place, of a whole sample, which may be another one later or elsewhere
        size = max(rows, int(one.max()) + 1, int(two.max()) + 1)
        train, held = (torch.bincount(each.long(), minlength=size) / len(each) for each in (one, two))
        token = int((held - train).argmax())
        if held[token] > limits.min_share_held_out and held[token] > limits.times_as_often * train[token]:
            yield Hit(
                f"token {token} is {held[token]:.0%} of the tokens of {split.name} in {place}, and "
                f"{train[token]:.1%} in training",
                split.place.beside(note=place),
            )
    if not judged:
        raise CannotJudge("no texts enter the network")


def is_text(chunks: list[Tensor]) -> bool:
    """Whether tokens, (N, T), are more often followed by another one than by the same one, but for padding."""
    pairs = [(each[:, :-1], each[:, 1:], each[:, -1:]) for each in chunks if each.ndim == 2]
    changes = sum(int((one != other).sum()) for one, other, _ in pairs)
    stays = sum(int(((one == other) & (one != last)).sum()) for one, other, last in pairs)
    return changes > stays


def months(first: int) -> TensorDataset:
    """Return weeks of a few months, from a first one on, with a month for each day."""
    days = first + (torch.arange(1000)[:, None] + torch.arange(7)) // 120
    return TensorDataset(days, days % 4)


def often(train: float, held: float) -> Example:
    return on_datasets(lambda: tagged(often=train), lambda: tagged(often=held), module=Tagger)


PROBE = Probe(
    question="Does each token make up about the same share of the held-out texts as of the training texts?",
    why="if this is the token for unknown words, held-out texts are cleaned, split or encoded otherwise than the texts "
    "that the vocabulary was made of",
    severity=WARNING,
    fix=Fix("look up what the token stands for; clean and encode all texts by one function"),
    detect=detect,
    faulty=often(0.0, 0.2),
    healthy=often(0.0, 0.06),
    also_healthy=(on_datasets(lambda: months(1), lambda: months(20), module=Tagger),),
    thresholds={
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
