import hydra
import numpy as np
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


def cox_loss(risk: Tensor, time: Tensor, event: Tensor) -> Tensor:
    """Negative log partial likelihood (Breslow) of the patients of a batch."""
    order = torch.argsort(time, descending=True)
    risk, event = risk[order], event[order]
    at_risk = torch.logcumsumexp(risk, dim=0)
    return -((risk - at_risk) * event).sum() / event.sum().clamp(min=1)


def concordance(risk: np.ndarray, time: np.ndarray, event: np.ndarray) -> float:
    earlier = (time[:, None] < time[None, :]) & (event[:, None] == 1)
    right = (risk[:, None] > risk[None, :]) & earlier
    return float(right.sum() / max(earlier.sum(), 1))


class Patients(Dataset):
    def __init__(self, samples: int, seed: int):
        rng = np.random.default_rng(seed)
        age = rng.normal(62, 11, samples)
        marker = rng.lognormal(0.5, 0.8, samples)
        stage = rng.integers(1, 5, samples)
        treated = rng.integers(0, 2, samples)
        hazard = 0.05 * (age - 62) + 0.6 * np.log(marker) + 0.5 * stage - 0.9 * treated
        death = rng.exponential(1500 * np.exp(-hazard))
        censored = rng.exponential(1200, samples)
        self.time = np.minimum(death, censored)
        self.event = (death <= censored).astype("float32")
        self.x = np.stack([(age - 62) / 11, (np.log(marker) - 0.5) / 0.8, (stage - 2.5) / 1.12, treated], 1)

    def __len__(self):
        return len(self.time)

    def __getitem__(self, i):
        return {
            "x": torch.tensor(self.x[i], dtype=torch.float32),
            "time": torch.tensor(self.time[i], dtype=torch.float32),
            "event": torch.tensor(self.event[i]),
        }


class DeepSurv(pl.LightningModule):
    def __init__(self, hidden: int, lr: float, weight_decay: float):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(4, hidden), nn.SELU(), nn.Linear(hidden, hidden), nn.SELU(), nn.Linear(hidden, 1, bias=False)
        )
        self.collected = []

    def forward(self, x):
        return self.net(x).squeeze(-1)

    def training_step(self, batch, batch_idx):
        loss = cox_loss(self(batch["x"]), batch["time"], batch["event"])
        self.log("train/npll", loss, batch_size=len(batch["x"]))
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        self.collected.append((self(batch["x"]), batch["time"], batch["event"]))

    def on_validation_epoch_end(self):
        risk, time, event = (torch.cat(each) for each in zip(*self.collected, strict=True))
        self.collected.clear()
        self.log("val/npll", cox_loss(risk, time, event))
        self.log("val/c_index", concordance(risk.cpu().numpy(), time.cpu().numpy(), event.cpu().numpy()), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(
            self.parameters(), lr=self.hparams.lr, momentum=0.9, nesterov=True, weight_decay=self.hparams.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=2)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/c_index"}}


@hydra.main(version_base=None, config_path="configs", config_name="train")
def main(cfg: DictConfig) -> float:
    pl.seed_everything(cfg.seed)
    train = DataLoader(Patients(cfg.data.train, seed=1), batch_size=cfg.data.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(Patients(cfg.data.val, seed=2), batch_size=cfg.data.batch_size)
    model = DeepSurv(**cfg.model)
    trainer = pl.Trainer(callbacks=[instantiate(c) for c in cfg.callbacks.values()], **cfg.trainer)
    trainer.fit(model, train, val)
    return trainer.callback_metrics["val/c_index"].item()


if __name__ == "__main__":
    main()
