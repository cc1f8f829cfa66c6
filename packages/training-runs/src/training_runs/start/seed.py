import os
import random

import numpy as np
import pytorch_lightning as pl
import torch


def seed_everything(seed: int | None, deterministic: bool) -> None:
    """Seed Python, NumPy, torch and loader workers, or unseed them when `seed` is None; set cuDNN's flags.

    Every call leaves the same state, whatever the jobs before it in a sweep have set. `Trainer(deterministic=...)`
    sets torch's deterministic algorithms and CUBLAS_WORKSPACE_CONFIG itself.
    """
    if seed is None:
        for variable in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
            os.environ.pop(variable, None)
        fresh = torch.seed()
        random.seed(fresh)
        np.random.seed(fresh % 2**32)
    else:
        pl.seed_everything(seed, workers=True, verbose=False)
    torch.use_deterministic_algorithms(False)  # until the Trainer says otherwise
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = False
