"""Validates and tests a run's last checkpoint on as many ranks as there are: score.py RUN VAL_SIZE RESULT"""

import json
import os
import sys
from pathlib import Path

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from pytorch_lightning import Trainer

run, val_size, result = sys.argv[1:]
cfg = OmegaConf.load(f"{run}/.hydra/config.yaml")
datamodule = instantiate(cfg.data, val_size=int(val_size))
model = instantiate(cfg.model)
checkpoint = torch.load(f"{run}/checkpoints/last.ckpt", weights_only=True)
model.load_state_dict(checkpoint["state_dict"])
ranks = int(os.environ.get("WORLD_SIZE", "1"))
strategy = "ddp" if ranks > 1 else "auto"
trainer = Trainer(accelerator="cpu", devices=ranks, strategy=strategy, logger=False, enable_progress_bar=False)
[validated] = trainer.validate(model, datamodule=datamodule)
[tested] = trainer.test(model, datamodule=datamodule)
if trainer.is_global_zero:
    scores = {"world_size": trainer.world_size, "metrics": validated | tested}
    Path(result).write_text(json.dumps(scores), encoding="utf-8")
if ranks > 1:
    # Together: a rank that leaves early makes the other abort.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
