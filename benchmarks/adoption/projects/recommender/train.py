import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Purchases(Dataset):
    """Users, what they bought, and something else that is drawn anew each time."""

    def __init__(self, users: int, items: int, each: int) -> None:
        generator = torch.Generator().manual_seed(0)
        tastes = torch.randn(users, 4, generator=generator) @ torch.randn(4, items, generator=generator)
        self.items = items
        self.bought = tastes.topk(each, dim=1).indices  # (users, each)

    def __len__(self) -> int:
        return self.bought.numel()

    def __getitem__(self, index: int) -> dict[str, int]:
        user, place = divmod(index, self.bought.shape[1])
        other = int(torch.randint(self.items, ()))
        return {"user": user, "item": int(self.bought[user, place]), "other": other}


class Factors(L.LightningModule):
    """Matrix factorisation by pairwise ranking, after Rendle et al., arXiv:1205.2618."""

    def __init__(self, users: int, items: int, factors: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.user, self.item = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.bias = nn.Embedding(items, 1)
        for embedding in (self.user, self.item):
            nn.init.normal_(embedding.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        return (self.user(user) * self.item(item)).sum(1) + self.bias(item).squeeze(1)

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
        margin = self(batch["user"], batch["item"]) - self(batch["user"], batch["other"])
        loss = -nn.functional.logsigmoid(margin).mean()
        self.log("train/bpr", loss, on_step=False, on_epoch=True)
        self.log("train/auc", (margin > 0).float().mean(), on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(self.parameters(), lr=self.hparams.lr)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed, workers=True)
    loader = DataLoader(Purchases(cfg.users, cfg.products, each=12), batch_size=cfg.batch_size, shuffle=True)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Factors(cfg.users, cfg.products, cfg.factors, cfg.lr), loader)


if __name__ == "__main__":
    main()
