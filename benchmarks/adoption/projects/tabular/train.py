import hydra
import numpy as np
import pandas as pd
import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_tabular import TabularModel
from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
from pytorch_tabular.models import CategoryEmbeddingModelConfig


def loans(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": random.lognormal(10, 0.5, rows),
            "age": random.integers(18, 80, rows).astype(float),
            "job": random.choice(["clerk", "nurse", "driver", "teacher"], rows),
        }
    )
    score = np.log(frame.income) - 10 + (frame.age - 45) / 40 + 0.5 * (frame.job == "nurse")
    frame["repaid"] = (score + 0.2 * random.standard_normal(rows) > 0.1).astype(int)
    return frame


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    data = loans(cfg.rows)
    tabular_model = TabularModel(
        data_config=DataConfig(target=["repaid"], continuous_cols=["income", "age"], categorical_cols=["job"]),
        model_config=CategoryEmbeddingModelConfig(task="classification", **OmegaConf.to_container(cfg.model)),
        optimizer_config=OptimizerConfig(),
        trainer_config=TrainerConfig(batch_size=cfg.batch_size, accelerator="cpu", load_best=False, checkpoints=None),
        verbose=False,
    )
    datamodule = tabular_model.prepare_dataloader(train=data, seed=cfg.seed)
    model = tabular_model.prepare_model(datamodule)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model, datamodule.train_dataloader(), datamodule.val_dataloader())


if __name__ == "__main__":
    main()
