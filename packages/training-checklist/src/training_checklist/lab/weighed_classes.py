"""An example whose criterion is given a weight for each class."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Sampler, TensorDataset

from training_checklist.lab.examples import Example, Validated, normal, on_datasets


def with_class_weights(
    counts: Sequence[int], weights: Sequence[float], drawn: Sequence[int] | None = None, whole: bool = True
) -> Example:
    """Return a training set with so many labels of each class.

    Args:
        drawn: how many of them are in the five batches of the run; None: all.
        whole: whether the dataset keeps its labels in one piece, so that all are known.
    """

    class Weighed(Validated):
        def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
            return functional.cross_entropy(answers, labels, torch.tensor(weights, dtype=torch.float32))

    def loader() -> DataLoader:
        places = torch.cat([(torch.arange(number) + 0.5) / number for number in counts])
        mixed = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))[places.argsort(stable=True)]
        labels = torch.empty_like(mixed)
        labels[torch.randperm(len(mixed), generator=torch.Generator().manual_seed(0))] = mixed  # as Split.chosen draws
        indices = [torch.nonzero(labels == label).flatten().tolist() for label in range(len(counts))]
        numbers = counts if drawn is None else drawn
        asked = [each[i % len(each)] for each, number in zip(indices, numbers, strict=True) for i in range(number)]
        kept = TensorDataset(normal(len(labels), 8), labels)
        samples = kept if whole else [*kept]

        class Balancing(Sampler):
            def __len__(self) -> int:
                return len(asked)

            def __iter__(self) -> Iterator[int]:
                return iter(asked)

        return DataLoader(samples, -(-len(asked) // 5), sampler=Balancing())

    return on_datasets(loader, module=Weighed)
