"""A callback that tells whatever it was given, as careless code does."""

import json
import logging
import os
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

log = logging.getLogger(__name__)


class Talkative(Callback):
    def __init__(self, told: Any) -> None:
        self.told = told

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        log.info("given %s", self.told)
        log.info("as JSON %s", json.dumps(self.told, default=str))
        log.info("around %s", dict(os.environ))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        raise ValueError(f"refused: {self.told} and {json.dumps(self.told, default=str)}")
