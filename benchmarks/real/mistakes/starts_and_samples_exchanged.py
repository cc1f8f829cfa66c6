"""A policy that is tried several times for each state, and each try compared with the others of its state."""

import torch
from made import CLASSES, Splits, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn

SOURCE = "ai4co/rl4co 5a1e4d5"
WRONG = "The rewards come try by try and are taken apart as if they came state by state: each is compared with others'."
NAMED = {
    "network/axes-mixed-by-reshape": "apart|view|reshape",
    "network/answers-depend-on-others": "apart|view|reshape",
}
NEEDS = (
    "a trace of which sample each number of a reward belongs to: rewards have no gradient, and the rule on reshaped "
    "axes looks at what the network makes of its inputs"
)
TRIES = 4


class ManyTries(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def apart(self, each: Tensor) -> Tensor:
        return each.view(-1, TRIES).T  # (tries * B,) -> (tries, B)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        states, right = (each.repeat(TRIES, *[1] * (each.ndim - 1)) for each in batch)
        chosen = torch.distributions.Categorical(logits=self.policy(states))
        actions = chosen.sample()
        reward, likelihood = self.apart((actions == right).float()), self.apart(chosen.log_prob(actions))
        loss = -((reward - reward.mean(dim=0)) * likelihood).mean()
        self.log("train/loss", loss)
        self.log("train/reward", reward.mean())
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        states, right = batch
        self.log("val/reward", (self.policy(states).argmax(dim=1) == right).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(ManyTries):
    def apart(self, each: Tensor) -> Tensor:
        return each.view(TRIES, -1)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else ManyTries)(), Splits(rows(512, 1), rows(128, 5))
