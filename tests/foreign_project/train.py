import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    callbacks = [instantiate(part) for part in cfg.callbacks.values()]
    trainer = instantiate(cfg.trainer, callbacks=callbacks)
    trainer.fit(instantiate(cfg.model), datamodule=instantiate(cfg.data))


if __name__ == "__main__":
    main()
