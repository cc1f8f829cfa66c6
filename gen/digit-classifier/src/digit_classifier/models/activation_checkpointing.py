"""Trade time for memory: recompute a stage's activations in backward instead of keeping them."""

from collections.abc import Sequence
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint
from training_config.errors import ConfigError


def checkpoint_stages(network: nn.Module, names: Sequence[str]) -> None:
    """Wrap the forward of the submodules called `names` (as in `named_modules()`), in place.

    Results stay the same: dropout replays its random state. A stage with BatchNorm updates its running
    statistics twice a step.

    Raises:
        ConfigError: there is no submodule of that name.
    """
    modules = dict(network.named_modules())
    for name in names:
        if name not in modules or name == "":
            known = ", ".join(child for child, _ in network.named_children())
            raise ConfigError(f"model.checkpoint_stages: the network has no stage {name!r}; it has {known}")
        modules[name].forward = partial(checkpoint, modules[name].forward, use_reentrant=False)
