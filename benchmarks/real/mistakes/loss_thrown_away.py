"""A policy that learns from several tries at each state, compared with one another."""

import torch
from made import CLASSES, Splits, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn

SOURCE = "ai4co/rl4co 658b0b8"
WRONG = (
    "The shared function that makes the loss was written for one try at each state and puts its result elsewhere; what "
    "it returns is thrown away, so that training_step has no loss."
)
LOUD = True
NAMED = {"run/no-loss": "training_step", "crash": "training_step"}

TRIES = 4


class ManyTries(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def with_loss(self, result: dict[str, Tensor]) -> dict[str, Tensor]:
        advantage = result["reward"] - result["reward"].mean(dim=0)
        return {**result, "loss": -(advantage * result["log_likelihood"]).mean()}

    def tried(self, batch: list[Tensor]) -> dict[str, Tensor]:
        states, right = batch
        chosen = torch.distributions.Categorical(logits=self.policy(states))
        actions = chosen.sample((TRIES,))
        return {"reward": (actions == right).float(), "log_likelihood": chosen.log_prob(actions)}

    def training_step(self, batch: list[Tensor], batch_idx: int) -> dict[str, Tensor | None]:
        result = self.tried(batch)
        self.with_loss(result)
        self.log("train/reward", result["reward"].mean())
        return {"loss": result.get("loss"), "reward": result["reward"].detach()}

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        states, right = batch
        self.log("val/reward", (self.policy(states).argmax(dim=1) == right).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(ManyTries):
    def training_step(self, batch: list[Tensor], batch_idx: int) -> dict[str, Tensor | None]:
        result = self.with_loss(self.tried(batch))
        self.log("train/reward", result["reward"].mean())
        return {"loss": result.get("loss"), "reward": result["reward"].detach()}


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else ManyTries)(), Splits(rows(512, 1), rows(128, 5))
