"""How a network's weights start, by name: `model.init=kaiming_normal`."""

from torch import nn


def kaiming_normal(network: nn.Module) -> None:
    """Draw convolution and linear weights from N(0, 2 / fan_in) and set biases to zero.

    Source: He et al. 2015, "Delving Deep into Rectifiers", equation 10.
    """
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def leave_as_built(network: nn.Module) -> None:
    """Keep what each layer's constructor drew: PyTorch's own defaults."""


INITIALIZATIONS = {"pytorch": leave_as_built, "kaiming_normal": kaiming_normal}
