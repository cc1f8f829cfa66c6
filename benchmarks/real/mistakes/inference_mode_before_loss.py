"""A policy that is tried without a graph, and then learns from what it has tried."""

import torch
from made import CLASSES, Splits, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "ai4co/rl4co 4930167"
WRONG = "The tries are made in inference mode, and tensors of it cannot take part in the loss that follows."
LOUD = True
NAMED = {"crash": "in (ProximalPolicy.)?tried"}


class ProximalPolicy(LightningModule):
    context = torch.inference_mode

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(16, 16)
        self.policy = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))
        self.critic = nn.Linear(16, 1)

    def tried(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with self.context():
            encoded = states * 1.0
            chosen = torch.distributions.Categorical(logits=self.policy(self.encoder(encoded)))
            actions = chosen.sample()
            return encoded, actions, chosen.log_prob(actions)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        states, right = batch
        encoded, actions, before = self.tried(states)
        hidden = self.encoder(encoded)
        now = torch.distributions.Categorical(logits=self.policy(hidden)).log_prob(actions)
        reward, expected = (actions == right).float(), self.critic(hidden).squeeze(1)
        ratio, advantage = (now - before).exp(), reward - expected.detach()
        clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        loss = functional.mse_loss(expected, reward) - clipped.mean()
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        states, right = batch
        self.log("val/reward", (self.policy(self.encoder(states)).argmax(dim=1) == right).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Mended(ProximalPolicy):
    context = torch.no_grad


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else ProximalPolicy)(), Splits(rows(512, 1), rows(128, 5))
