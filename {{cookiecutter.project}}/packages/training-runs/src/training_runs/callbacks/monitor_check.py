"""Says before the first epoch, and not after it, that nobody logs what is monitored."""

from omegaconf import DictConfig
from pytorch_lightning import Callback, LightningModule, Trainer
from training_config.errors import ConfigError
from training_config.near_names import suggestion
from training_config.walk import walk


class MonitorCheck(Callback):
    """Compares every `monitor` of the config that names a val/* metric with what the sanity check has logged."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg

    def on_sanity_check_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        logged = sorted(name for name in trainer.callback_metrics if name.startswith("val/"))
        wanted = {key: str(parent[name]) for key, parent, name in walk(self.cfg) if name == "monitor"}
        wrong = [key for key, name in wanted.items() if name.startswith("val/") and name not in logged]
        if logged and wrong:
            key = min(wrong, key=len)  # the others lead to it
            raise ConfigError(
                f"{key}={wanted[key]} is logged by nobody; validation logs {', '.join(logged)}"
                + suggestion(wanted[key], logged)
            )
