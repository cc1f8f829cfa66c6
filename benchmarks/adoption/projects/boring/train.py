import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.demos.boring_classes import BoringDataModule, BoringModel


class Model(BoringModel):
    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.01)  # the demo's 0.1 diverges
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)]


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Model(), datamodule=BoringDataModule())


if __name__ == "__main__":
    main()
