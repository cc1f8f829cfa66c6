"""Speech that is to be cleaned, judged by a distortion that lets small differences pass."""

import torch
from made import Splits, Task, drawn
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import TensorDataset

SOURCE = "asteroid-team/asteroid bb36b54a"
WRONG = "A frame whose differences are all masked has a distortion of sqrt(0), and its gradient is not a number."
NAMED = {
    "numerics/backward-not-finite": "distortion|sqrt",
    "numerics/gradients-not-finite": "distortion|sqrt",
    "gradients/not-finite": "distortion|sqrt",
}


def spectra(samples: int, seed: int) -> TensorDataset:
    """Return noisy and clean spectra (B, 6, 8) of loudness; the last frames are silent."""
    clean = torch.rand(samples, 6, 8, generator=drawn(seed))
    clean[:, 4:] = 0
    return TensorDataset((clean + 0.3 * torch.rand(clean.shape, generator=drawn(seed + 1))) - 0.5, clean)


class Denoiser(Task):
    lr = 3e-3
    least = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8), nn.ReLU())

    def distortion(self, answer: Tensor, clean: Tensor) -> Tensor:
        masking = 0.25 * torch.minimum(answer, clean) + 0.01
        heard = ((answer - clean).abs() - masking).clamp(min=0)
        return (heard.square().sum(dim=-1) + self.least).sqrt()

    def loss(self, batch: list[Tensor]) -> Tensor:
        noisy, clean = batch
        return self.distortion(self.net(noisy), clean).mean()


class Mended(Denoiser):
    least = 1e-8


def silent(module: Denoiser) -> Denoiser:
    """Let the network answer 0 to some frames from the start, as one does that ends in a ReLU."""
    with torch.no_grad():
        module.net[2].bias.fill_(-0.1)
    return module


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return silent((Mended if mended else Denoiser)()), Splits(spectra(512, 1), spectra(128, 5))
