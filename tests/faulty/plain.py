"""A training script as others write it, in which Lightning starts the ranks: PROJECT=<folder> python plain.py ..."""

import os
import sys

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig
from training_runs.start import resolvers

resolvers.register()


@hydra.main(version_base="1.3", config_path=os.environ["PROJECT"] + "/conf", config_name="train")
def main(cfg: DictConfig) -> None:
    callbacks = [instantiate(part) for part in cfg.callbacks.values()]
    trainer = instantiate(cfg.trainer, callbacks=callbacks, logger=False)
    trainer.fit(instantiate(cfg.model), datamodule=instantiate(cfg.data))


if __name__ == "__main__":
    sys.exit(main())
