"""Which samples validate: some that are set aside, or those of a fold of a cross-validation."""

import torch
from torch import Tensor
from training_config.errors import ConfigError


def split(order: Tensor, size: int, fold: int | None, folds: int) -> tuple[Tensor, Tensor]:
    """Return the indices that train and those that validate.

    Args:
        order: (N,) all indices, shuffled by what is the same for every fold.
        size: how many of the first validate where `fold` is None.
        fold: which of the `folds` parts validates; the parts differ by one sample at most.
        folds: 5 and 10 are usual (Kohavi 1995, "A study of cross-validation and bootstrap").

    Raises:
        ConfigError: there is no such fold, or not a sample for each.
    """
    if fold is None:
        return order[size:], order[:size]
    if not 0 <= fold < folds <= len(order) or folds == 1:
        raise ConfigError(
            f"fold={fold} must be from 0 to folds - 1, and folds={folds} from 2 to {len(order)}, the samples"
        )
    parts = list(order.tensor_split(folds))
    val = parts.pop(fold)
    return torch.cat(parts), val
