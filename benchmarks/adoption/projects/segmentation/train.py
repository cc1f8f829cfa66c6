import hydra
import pytorch_lightning as pl
import segmentation_models_pytorch as smp
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset


class Discs(Dataset):
    """RGB images with bright discs and their masks; uint8-like values from 0 to 255, as pictures are read."""

    def __init__(self, samples: int, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        centre = torch.randint(size // 4, 3 * size // 4, (samples, 2, 1, 1), generator=generator)
        radius = torch.randint(size // 8, size // 4, (samples, 1, 1), generator=generator)
        self.masks = ((x - centre[:, 0]) ** 2 + (y - centre[:, 1]) ** 2 < radius**2).float().unsqueeze(1)
        noise = torch.rand(samples, 3, size, size, generator=generator)
        self.images = (80 * noise + 120 * self.masks + 20).round()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"image": self.images[index], "mask": self.masks[index]}


class DiscModel(pl.LightningModule):
    def __init__(self, arch: str, encoder_name: str, in_channels: int, out_classes: int, t_max: int, **kwargs) -> None:
        super().__init__()
        self.model = smp.create_model(
            arch,
            encoder_name=encoder_name,
            encoder_weights=None,
            in_channels=in_channels,
            classes=out_classes,
            **kwargs,
        )
        self.register_buffer("std", torch.tensor([58.4, 57.1, 57.4]).view(1, 3, 1, 1))
        self.register_buffer("mean", torch.tensor([123.7, 116.3, 103.5]).view(1, 3, 1, 1))
        self.loss_fn = smp.losses.DiceLoss(smp.losses.BINARY_MODE, from_logits=True)
        self.t_max = t_max
        self.training_step_outputs, self.validation_step_outputs = [], []

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.model((image - self.mean) / self.std)

    def shared_step(self, batch: dict, stage: str) -> dict:
        image, mask = batch["image"], batch["mask"]
        logits_mask = self.forward(image)
        loss = self.loss_fn(logits_mask, mask)
        pred_mask = (logits_mask.sigmoid() > 0.5).float()
        tp, fp, fn, tn = smp.metrics.get_stats(pred_mask.long(), mask.long(), mode="binary")
        return {"loss": loss, "tp": tp, "fp": fp, "fn": fn, "tn": tn}

    def shared_epoch_end(self, outputs: list[dict], stage: str) -> None:
        tp, fp, fn, tn = (torch.cat([output[name] for output in outputs]) for name in ("tp", "fp", "fn", "tn"))
        iou = smp.metrics.iou_score(tp, fp, fn, tn, reduction="micro-imagewise")
        self.log_dict({f"{stage}_per_image_iou": iou}, prog_bar=True)

    def training_step(self, batch: dict, batch_idx: int) -> dict:
        output = self.shared_step(batch, "train")
        self.training_step_outputs.append({name: value.detach() for name, value in output.items()})
        return output

    def on_train_epoch_end(self) -> None:
        self.shared_epoch_end(self.training_step_outputs, "train")
        self.training_step_outputs.clear()

    def validation_step(self, batch: dict, batch_idx: int) -> dict:
        output = self.shared_step(batch, "valid")
        self.validation_step_outputs.append(output)
        return output

    def on_validation_epoch_end(self) -> None:
        self.shared_epoch_end(self.validation_step_outputs, "valid")
        self.validation_step_outputs.clear()

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-3)
        scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.t_max, eta_min=1e-5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step", "frequency": 1}}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    train = DataLoader(Discs(64, cfg.size, seed=1), batch_size=cfg.batch_size, shuffle=True, num_workers=0)
    valid = DataLoader(Discs(16, cfg.size, seed=2), batch_size=cfg.batch_size, shuffle=False, num_workers=0)
    model = DiscModel(**cfg.model, t_max=cfg.trainer.max_epochs * len(train))
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model, train_dataloaders=train, val_dataloaders=valid)
    trainer.validate(model, dataloaders=valid, verbose=False)


if __name__ == "__main__":
    main()
