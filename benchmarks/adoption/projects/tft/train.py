import hydra
import lightning.pytorch as pl
import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_forecasting import GroupNormalizer, QuantileLoss, TemporalFusionTransformer, TimeSeriesDataSet


def sales(series: int, length: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    time = np.arange(length)
    frames = []
    for number in range(series):
        season = np.sin(2 * np.pi * (time + random.integers(7)) / 7)
        volume = (10 + number) * (1 + 0.3 * season + 0.02 * random.standard_normal(length))
        frames.append(
            pd.DataFrame({"time_idx": time, "shop": str(number), "day": (time % 7).astype(str), "volume": volume})
        )
    return pd.concat(frames, ignore_index=True)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(42)
    data = sales(cfg.series, cfg.length)
    cutoff = cfg.length - 1 - cfg.horizon
    training = TimeSeriesDataSet(
        data[data.time_idx <= cutoff],
        time_idx="time_idx",
        target="volume",
        group_ids=["shop"],
        min_encoder_length=cfg.history // 2,
        max_encoder_length=cfg.history,
        max_prediction_length=cfg.horizon,
        static_categoricals=["shop"],
        time_varying_known_categoricals=["day"],
        time_varying_known_reals=["time_idx"],
        time_varying_unknown_reals=["volume"],
        target_normalizer=GroupNormalizer(groups=["shop"], transformation="softplus"),
        add_relative_time_idx=True,
        add_target_scales=True,
        add_encoder_length=True,
    )
    validation = TimeSeriesDataSet.from_dataset(training, data, predict=True, stop_randomization=True)
    train_dataloader = training.to_dataloader(train=True, batch_size=cfg.batch_size, num_workers=0)
    val_dataloader = validation.to_dataloader(train=False, batch_size=cfg.batch_size * 10, num_workers=0)

    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    tft = TemporalFusionTransformer.from_dataset(training, loss=QuantileLoss(), **cfg.model)
    trainer.fit(tft, train_dataloaders=train_dataloader, val_dataloaders=val_dataloader)


if __name__ == "__main__":
    main()
