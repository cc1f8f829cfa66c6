import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class LogSpectrum:
    """Logarithm of a wave's spectrogram. A plain object: its window is made at first use, where the wave lies."""

    def __init__(self, n_fft: int, hop: int) -> None:
        self.n_fft, self.hop = n_fft, hop
        self.window: torch.Tensor | None = None

    def __call__(self, wave: torch.Tensor) -> torch.Tensor:
        if self.window is None or self.window.device != wave.device:
            self.window = torch.hann_window(self.n_fft, device=wave.device)
        spectrum = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return (spectrum.abs() + 1e-5).log()  # (B, n_fft / 2 + 1, frames)


class Keywords(L.LightningModule):
    def __init__(self, classes: int, channels: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.spectrum = LogSpectrum(n_fft=128, hop=64)
        self.net = nn.Sequential(
            nn.Conv1d(65, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.GELU(),
            nn.Conv1d(channels, channels, 3, padding=2, dilation=2), nn.GroupNorm(4, channels), nn.GELU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, classes),
        )  # fmt: skip
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.accuracy = MulticlassAccuracy(classes)
        self._positions: torch.Tensor | None = None

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        features = self.spectrum(wave.squeeze(1))
        if self._positions is None:  # a bias by frequency, of this size, made once
            self._positions = torch.linspace(0, 1, features.shape[1], device=wave.device).view(1, -1, 1)
        return self.net(features + self._positions)

    def training_step(self, batch: list, batch_idx: int) -> torch.Tensor:
        wave, label = batch
        loss = self.criterion(self(wave), label)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list, batch_idx: int) -> None:
        wave, label = batch
        self.accuracy.update(self(wave), label)
        self.log("val/accuracy", self.accuracy)

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        steps = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams.lr, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class Tones(L.LightningDataModule):
    """Waves of 1,024 values, (1, 1024): a rising, a falling, a steady or a beating tone, quiet or loud, with noise."""

    def __init__(self, batch_size: int, samples: int) -> None:
        super().__init__()
        self.batch_size, self.samples = batch_size, samples

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(0)
        label = torch.randint(4, (self.samples,), generator=generator)
        time = torch.linspace(0, 1, 1024)
        pitch = 60 + 60 * torch.rand(self.samples, 1, generator=generator)
        slope = torch.tensor([60.0, -30.0, 0.0, 0.0])[label].unsqueeze(1)
        wave = torch.sin(6.283 * (pitch * time + slope * time**2))
        beat = 0.5 + 0.5 * torch.sin(6.283 * 8 * time)
        wave = torch.where((label == 3).unsqueeze(1), wave * beat, wave)
        loud = 0.02 + 0.1 * torch.rand(self.samples, 1, generator=generator)
        wave = loud * (wave + 0.1 * torch.randn(wave.shape, generator=generator))
        dataset = TensorDataset(wave.unsqueeze(1), label)
        self.train = torch.utils.data.Subset(dataset, range(self.samples * 4 // 5))
        self.val = torch.utils.data.Subset(dataset, range(self.samples * 4 // 5, self.samples))

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Keywords(**cfg.model), datamodule=Tones(**cfg.data))


if __name__ == "__main__":
    main()
