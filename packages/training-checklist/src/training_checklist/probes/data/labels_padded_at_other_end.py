import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Tagger, on_datasets, part, words
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    own, roles = part(data, data.train), data.roles
    texts, targets = own.rows.get(words(roles) or "", []), own.rows.get(roles.target or "", [])
    pairs = [(text, labels) for text, labels in zip(texts, targets, strict=False) if text.shape == labels.shape]
    marked = [(text, labels == roles.ignored) for text, labels in pairs if text.ndim == 1]
    padded = [(text, padding) for text, padding in marked if at_one_end(padding)]
    if roles.classes is None or len({run(padding) for _, padding in padded}) < 2:
        raise CannotJudge("no labels of tokens are padded, at one end, to several lengths")
    here = [text[padding] for text, padding in padded]
    there = [text[padding.flip(0)] for text, padding in padded]
    filler = torch.cat(there).mode().values
    if all(bool((each == filler).all()) for each in there) and not any(bool((each == filler).all()) for each in here):
        ends = ("left", "right") if padded[0][1][-1] else ("right", "left")
        yield Hit(
            f"the tokens of all {len(padded)} texts that were looked at are padded on the {ends[0]}, and their labels "
            f"on the {ends[1]}",
            data.train.place.beside(note=roles.target),
        )


def run(padding: Tensor) -> int:
    """Return how long the padding at the one end is at which it stands."""
    return int((padding if padding[0] else padding.flip(0)).long().cumprod(0).sum())


def at_one_end(padding: Tensor) -> bool:
    """Whether it is at one end, and nowhere else."""
    return bool(padding[0] != padding[-1]) and run(padding) == int(padding.sum())


def padded(left: bool) -> Example:
    """Fill texts of five to ten tokens up to twelve, and their labels on the right."""

    def texts() -> TensorDataset:
        tokens, places = torch.randint(8, 100, (100, 12)), torch.arange(12)
        filled = places >= 5 + torch.arange(100)[:, None] % 6
        labels = torch.where(filled, Tagger.ignored, tokens % 4)
        tokens = torch.where(filled, 0, tokens)
        length = (~filled).sum(1, keepdim=True)
        return TensorDataset(tokens.gather(1, (places + length) % 12) if left else tokens, labels)

    return on_datasets(texts, texts, module=Tagger)


PROBE = Probe(
    question="Are tokens and their labels padded at the same end?",
    why="each label is compared with the answer to another token, or to padding",
    fix=Fix("pad both on one side in the collate function, and make the mask of the padded tokens"),
    detect=detect,
    faulty=padded(left=True),
    healthy=padded(left=False),
)
