"""Says before the first epoch, and not after it, what cannot be meant: nobody logs what is monitored, for one."""

from collections.abc import Iterable

from omegaconf import DictConfig
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.model_helpers import is_overridden
from training_config.errors import ConfigError
from training_config.near_names import suggestion

from training_runs.start import console
from training_runs.start.refusals import monitored


class MonitorCheck(Callback):
    """Compares every `monitor` of the config that names a val/* metric with what the sanity check has logged.

    A run that goes on has none, and monitors what it did.
    """

    def __init__(self, cfg: DictConfig) -> None:
        self.wanted = monitored(cfg)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        lacking = no_validation(trainer, pl_module)
        key = next((key for key, name in self.wanted.items() if name.startswith("val/")), None)
        if lacking and key is not None:
            raise ConfigError(
                f"{key}={self.wanted[key]} is a metric of validation, and {lacking}; write one, or use "
                "monitor=train/loss or another metric that training logs"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        batches, accumulated = trainer.num_training_batches, trainer.accumulate_grad_batches
        if accumulated > batches:
            told = f"trainer.accumulate_grad_batches={accumulated} but an epoch has {batches} batches"
            console.record(f"{told}: there is one optimizer step in each epoch, of fewer samples", shown=True)

    def on_sanity_check_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.check(trainer.callback_metrics)

    def check(self, metrics: Iterable[str]) -> None:
        logged = sorted(name for name in metrics if name.startswith("val/"))
        wrong = [key for key, name in self.wanted.items() if name.startswith("val/") and name not in logged]
        if logged and wrong:
            key = wrong[0]
            raise ConfigError(
                f"{key}={self.wanted[key]} names a metric that is not logged; validation logs {', '.join(logged)}"
                + suggestion(self.wanted[key], logged)
            )


def no_validation(trainer: Trainer, pl_module: LightningModule) -> str | None:
    """Return what is missing for a validation, or None where there is one."""
    parts = {"validation_step": pl_module, "val_dataloader": trainer.datamodule}
    lacking = (hook for hook, part in parts.items() if part is not None and not is_overridden(hook, part))
    return next((f"{type(parts[hook]).__name__} has no {hook}" for hook in lacking), None)
