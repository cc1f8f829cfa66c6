"""A policy that learns by its rewards, less what a critic expects of them."""

import torch
from made import CLASSES, Splits, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "ai4co/rl4co 6f467c7"
WRONG = "The critic's squared error is subtracted from the loss: it is driven away from the rewards."
NAMED = {"network/loss-falls-as-criterion-grows": "critic_loss|mse_loss"}


class ActorCritic(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))
        self.critic = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def critic_loss(self, expected: Tensor, reward: Tensor) -> Tensor:
        return -functional.mse_loss(expected, reward)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        states, right = batch
        chosen = torch.distributions.Categorical(logits=self.policy(states))
        actions = chosen.sample()
        reward, expected = (actions == right).float(), self.critic(states).squeeze(1)
        actor = -((reward - expected.detach()) * chosen.log_prob(actions)).mean()
        loss = actor + self.critic_loss(expected, reward)
        self.log("train/loss", loss)
        self.log("train/reward", reward.mean())
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        states, right = batch
        self.log("val/reward", (self.policy(states).argmax(dim=1) == right).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(ActorCritic):
    def critic_loss(self, expected: Tensor, reward: Tensor) -> Tensor:
        return functional.mse_loss(expected, reward)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else ActorCritic)(), Splits(rows(512, 1), rows(128, 5))
