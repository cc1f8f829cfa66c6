"""Two mixed waves that are to be separated, whichever answer stands for which."""

import torch
from made import Splits, Task, drawn
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "asteroid-team/asteroid c2d7663a"
WRONG = "The losses of all pairs are gathered in a tensor that is made on the CPU, wherever the batch is."
NAMED = {"device/tensor-made-on-cpu": "Separation.empty"}

ORDERS = ((0, 1), (1, 0))


def mixtures(samples: int, seed: int) -> TensorDataset:
    """Return sums of a slow and a fast wave (B, 64), and the two in any order (B, 2, 64)."""
    phases = 6.28 * torch.rand(samples, 2, 1, generator=drawn(seed))
    waves = torch.sin(torch.tensor([[2.0], [9.0]]) * torch.linspace(0, 6.28, 64) + phases)
    return TensorDataset(waves.sum(dim=1), waves)


class Separation(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 128), nn.Unflatten(1, (2, 64)))

    def empty(self, sources: Tensor) -> Tensor:
        return torch.empty(len(sources), 2, 2)

    def loss(self, batch: list[Tensor]) -> Tensor:
        mixed, sources = batch
        answers = self.net(mixed)
        pairs = self.empty(sources)
        for answer in range(2):
            for source in range(2):
                pairs[:, answer, source] = (answers[:, answer] - sources[:, source]).square().mean(dim=1)
        orders = functional.one_hot(torch.tensor(ORDERS, device=sources.device), 2).float()  # (orders, 2, 2)
        return torch.einsum("bij,oij->bo", pairs, orders).amin(dim=1).mean()


class Mended(Separation):
    def empty(self, sources: Tensor) -> Tensor:
        return sources.new_empty(len(sources), 2, 2)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Separation)(), Splits(mixtures(512, 1), mixtures(128, 5))
