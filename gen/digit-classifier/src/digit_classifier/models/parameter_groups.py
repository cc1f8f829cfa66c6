from typing import Any

from torch import nn


def parameter_groups(module: nn.Module, decay_norms_and_biases: bool) -> list[dict[str, Any]]:
    """Return the trainable parameters as optimizer groups, vectors and scalars apart and without weight decay.

    Norm scales and biases are exactly the parameters with fewer than two dimensions; decaying them only costs
    accuracy (Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 5.3).
    """
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if decay_norms_and_biases:
        return [{"params": trainable}]
    matrices = [parameter for parameter in trainable if parameter.ndim >= 2]
    vectors = [parameter for parameter in trainable if parameter.ndim < 2]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
