"""A generative adversarial network (Goodfellow et al. 2014) of digits: python train.py +experiment=gan

An example of several optimizers, whose steps Lightning leaves to the module (manual optimization).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from pydantic import PositiveInt
from pytorch_lightning import LightningModule
from pytorch_lightning.core.optimizer import LightningOptimizer
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.optim import Optimizer
from torchvision.ops import MLP
from torchvision.utils import save_image

Batch = tuple[Tensor, Tensor]


class GAN(LightningModule):
    """A generator that makes images in -1..1 of noise, and a discriminator that tells them from real ones."""

    def __init__(
        self,
        image_shape: Sequence[int],
        latent: PositiveInt,
        width: PositiveInt,
        generator_optimizer: Callable[..., Optimizer],
        discriminator_optimizer: Callable[..., Optimizer],
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        pixels = math.prod(image_shape)
        self.latent = latent
        mlp = partial(MLP, activation_layer=partial(nn.LeakyReLU, 0.2), inplace=None)
        self.generator = nn.Sequential(mlp(latent, [width, width, pixels]), nn.Tanh(), nn.Unflatten(1, image_shape))
        self.discriminator = nn.Sequential(nn.Flatten(), mlp(pixels, [width, width, 1]))
        self.optimizers_of = generator_optimizer, discriminator_optimizer

    def forward(self, noise: Tensor) -> Tensor:
        return self.generator(noise)  # (B, latent) -> (B, C, H, W)

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        images, _ = batch
        generator, discriminator = self.optimizers()
        fakes = self(torch.randn(len(images), self.latent, device=self.device))
        # softplus(-x) is the cross-entropy of the logit x with 1, softplus(x) with 0.
        told = softplus(-self.discriminator(images)) + softplus(self.discriminator(fakes.detach()))
        self.step(discriminator, told.mean(), "train/discriminator_loss")
        self.step(generator, softplus(-self.discriminator(fakes)).mean(), "train/generator_loss")

    def step(self, optimizer: LightningOptimizer, loss: Tensor, name: str) -> None:
        self.toggle_optimizer(optimizer)  # the other one's parameters get no gradient
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.untoggle_optimizer(optimizer)
        self.log(name, loss, on_step=False, on_epoch=True, prog_bar=True)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.log_distance("val/distance", batch[0])

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self.log_distance("test/distance", batch[0])

    def log_distance(self, name: str, images: Tensor) -> None:
        """Log how far mean and deviation of each pixel are from those of as many real images."""
        fakes = self(self.fixed_noise(len(images)))
        means, deviations = ((f(images, dim=0) - f(fakes, dim=0)).square().mean() for f in (torch.mean, torch.std))
        self.log(name, means + deviations, batch_size=len(images), sync_dist=True)

    def fixed_noise(self, count: int) -> Tensor:
        """Return the same noise every time, so that epochs are compared, and training draws what it would without."""
        return torch.randn(count, self.latent, generator=torch.Generator().manual_seed(0)).to(self.device)

    def on_fit_end(self) -> None:
        if self.trainer.is_global_zero:
            path = Path(self.trainer.default_root_dir, "figures", "generated.png")
            path.parent.mkdir(exist_ok=True)
            with torch.no_grad():
                save_image(self(self.fixed_noise(64)), path, normalize=True, value_range=(-1, 1))

    def configure_optimizers(self) -> list[Optimizer]:
        generator, discriminator = self.optimizers_of
        return [generator(self.generator.parameters()), discriminator(self.discriminator.parameters())]
