"""A masked autoencoder of patches whose encoder and decoder are given weights of their own at the start."""

import torch
from made import Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "lightly-ai/lightly 571a9ec6"
WRONG = "The embedding and the head beside the decoder keep PyTorch's weights, where all else is initialised anew."
NAMED: dict[str, str] = {}
NEEDS = (
    "a remark on layers of one kind that start on different scales. Both scales train, and many networks mean it so: "
    "as a warning it would be a false alarm on most of them"
)

WIDTH, PATCH = 24, 16  # of 4 x 4 pixels


def xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def block() -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)


class MaskedAutoencoder(Task):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.encoder = nn.Linear(PATCH, WIDTH), block()
        self.decoder_embed, self.decoder = nn.Linear(WIDTH, WIDTH), block()
        self.head = nn.Linear(WIDTH, PATCH)
        self.places = nn.Parameter(0.02 * torch.randn(9, WIDTH))
        self.mask = nn.Parameter(0.02 * torch.randn(WIDTH))
        self.initialise()

    def initialise(self) -> None:
        for part in (self.embed, self.encoder, self.decoder):
            part.apply(xavier)

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, _ = batch
        patches = functional.unfold(images, 4, stride=4).transpose(1, 2)  # (B, 1, 12, 12) -> (B, 9, 16)
        tokens = self.decoder_embed(self.encoder((self.embed(patches) + self.places)[:, ::2]))
        whole = self.mask.expand(len(images), 9, WIDTH).clone()
        whole[:, ::2] = tokens
        rebuilt = self.head(self.decoder(whole + self.places))
        return functional.mse_loss(rebuilt[:, 1::2], patches[:, 1::2])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


class Mended(MaskedAutoencoder):
    def initialise(self) -> None:
        for part in (self.embed, self.encoder, self.decoder_embed, self.decoder, self.head):
            part.apply(xavier)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else MaskedAutoencoder)(), Splits(pictures(256, 1), pictures(64, 5))
