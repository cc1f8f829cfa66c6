"""A small network over sequences of tokens, and sequences of several lengths, for examples."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.lab.examples import Small, Validated

PAD = 0


class Reader(Small):
    """Predicts the next token from those up to it.

    Args:
        leak: weight of a mean over all positions, later ones and padding too, beside those up to each position.
        counted: weight of padding in the loss, where that of other tokens is 1.
    """

    def __init__(self, leak: float = 0.0, counted: float = 0.0) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(32, 8), nn.Linear(16, 32)
        self.leak, self.counted = leak, counted

    def forward(self, tokens: Tensor) -> Tensor:
        seen = self.table(tokens)
        before = seen.cumsum(1) / torch.arange(1, 1 + tokens.shape[1])[:, None]
        return super().forward(before + self.leak * seen.mean(1, keepdim=True))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        answers, targets = self(batch["tokens"])[:, :-1].flatten(0, 1), batch["tokens"][:, 1:].flatten()
        weights = torch.ones(32).index_fill(0, torch.tensor([PAD]), self.counted)
        return functional.cross_entropy(answers, targets, weights)


def texts() -> DataLoader:
    """Load 16 sequences of 5 to 8 tokens."""
    lengths = 5 + torch.arange(16) % 4
    tokens = torch.randint(1, 32, (16, 8))
    tokens[torch.arange(8) >= lengths[:, None]] = PAD
    samples = [{"tokens": each, "length": length} for each, length in zip(tokens, lengths, strict=True)]
    return DataLoader(samples, batch_size=16)


class Tagger(Validated):
    """Four classes for each of 100 tokens."""

    words, ignored = 100, -100

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(self.words, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.table(inputs)).transpose(1, 2)

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(answers, labels, ignore_index=self.ignored)


def tagged(
    words: int = 100, often: float = 0.0, label: Any = lambda tokens: tokens % 4, length: int = 12
) -> TensorDataset:
    """Return 100 texts between two marks, 1 and 2, with a label for each token.

    Args:
        words: the tokens are those below.
        often: share of a token, 7, beside the others.
        label: of tokens, (N, T).
    """
    tokens = torch.randint(8, words, (100, length))
    tokens[:, -4] = words - 1
    inside = tokens.flatten()
    inside[: int(often * len(inside))] = 7
    tokens = inside[torch.randperm(len(inside))].view(100, length) if often else tokens
    tokens[:, 0], tokens[:, -1] = 1, 2
    return TensorDataset(tokens, label(tokens))
