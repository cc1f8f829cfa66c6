"""Refuses several processes before any of them starts. Nothing here imports torch."""

from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from training_config.processes import device_count, needs_processes

from training_checklist.reporting.wording import command, reaching
from training_checklist.starting.check import refused_by


class OneProcess(Callback):
    """Hydra's callback that ends a job with one sentence where the Trainer asks for more than one process."""

    def __init__(self, item: str) -> None:
        self.item = item

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        trainer = config.get("trainer")
        # A group of one is one process.
        if needs_processes(trainer) and device_count(trainer, 2) * int(trainer.get("num_nodes") or 1) > 1:
            strategy = OmegaConf.select(trainer, "strategy._target_", default=trainer.get("strategy"))
            alone = (reaching(config, change) or change for change in ("trainer.devices=1", "trainer.strategy=auto"))
            # Hydra makes warnings of exceptions here.
            refused_by(
                f"{self.item} needs one process, and this Trainer asks for several "
                f"(trainer.strategy={strategy}, trainer.devices={trainer.get('devices')}); "
                f"use {command(config, self.item, tuple(alone))}"
            )
