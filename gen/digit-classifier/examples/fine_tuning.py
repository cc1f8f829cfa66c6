"""Fine-tuning of a trained network: python train.py +experiment=fine_tuning model.net.weights=<file>"""

from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import NonNegativeInt
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import BaseFinetuning
from torch import nn
from torch.optim import Optimizer
from torchvision.models import get_model
from training_config.errors import ConfigError


def pretrained_resnet(name: str, weights: str, image_shape: Sequence[int], num_classes: int) -> nn.Module:
    """Return torchvision's ResNet `name` with the weights in a file and a new head.

    Grey images go through the sum of the first layer's three channels: the same as three equal channels would.
    """
    if not Path(weights).is_file():
        raise ConfigError(f"model.net.weights={weights} is no file; download the weights of {name} and name theirs")
    net = get_model(name)
    net.load_state_dict(torch.load(weights, weights_only=True))
    if image_shape[0] == 1:
        net.conv1.weight = nn.Parameter(net.conv1.weight.detach().sum(dim=1, keepdim=True))
    net.fc = nn.Linear(net.fc.in_features, num_classes)
    return net


class Unfreeze(BaseFinetuning):
    """Trains the head alone, and from `epoch` on all of the network, the rest at a rate divided by `denominator`.

    Raises:
        ConfigError: there are several processes: DDP averages no gradient of what was frozen when it began; or there is
            a schedule, which does not know the rate of what joins later.
    """

    def __init__(self, epoch: NonNegativeInt, denominator: float) -> None:
        super().__init__()
        self.epoch, self.denominator = epoch, denominator

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and trainer.world_size > 1:
            raise ConfigError(
                "callbacks.unfreeze works on one device: set trainer.devices=1, or callbacks.unfreeze=null"
            )
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.lr_scheduler_configs:
            raise ConfigError(
                "callbacks.unfreeze needs a constant rate: use scheduler=none, or callbacks.unfreeze=null"
            )

    def freeze_before_training(self, pl_module: LightningModule) -> None:
        self.freeze(self.backbone(pl_module), train_bn=False)

    def finetune_function(self, pl_module: LightningModule, epoch: int, optimizer: Optimizer) -> None:
        if epoch == self.epoch:
            backbone = self.backbone(pl_module)
            self.unfreeze_and_add_param_group(backbone, optimizer, initial_denom_lr=self.denominator)

    def backbone(self, pl_module: LightningModule) -> list[nn.Module]:
        return [module for name, module in pl_module.net.named_children() if name != "fc"]
