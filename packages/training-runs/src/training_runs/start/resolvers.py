"""What the configs can ask for beyond Hydra's own `${...}`. Imported before composition: nothing heavy here."""

import secrets
from datetime import datetime
from pathlib import Path

from omegaconf import OmegaConf

from training_runs.launching import ranks
from training_runs.records import resume


def run_stamp() -> str:
    """Return date/time-suffix; the suffix keeps runs apart that start in the same second."""
    stamp = datetime.now().strftime("%Y-%m-%d/%H-%M-%S-") + secrets.token_hex(2)
    return ranks.shared_stamp(stamp) if ranks.launched() else stamp


def unless_kept(name: str, output_dir: str) -> str | None:
    """Return `name`, where Hydra saves the config of a job, or None for a run that keeps the one it has saved."""
    return None if resume.keeps_its_config(Path(output_dir)) else name


def mixed_precision(accelerator: str) -> str:
    """Return Lightning's name for the best mixed precision of this machine's device: BF16, else FP16, else FP32."""
    import torch  # only when trainer=mixed asks

    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "16-mixed"
    if accelerator in ("auto", "cpu") and not torch.backends.mps.is_available():
        # Other CPUs emulate BF16 and are slower for it.
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return "bf16-mixed" if native else "32-true"
    return "32-true"


def ddp_devices(accelerator: str) -> int:
    """Return how many processes `trainer=ddp` starts: one for each GPU, or two on a machine without."""
    import torch  # only when trainer=ddp asks; counting GPUs initialises none

    gpus = 0 if accelerator == "cpu" else torch.cuda.device_count()
    return gpus or 2


def optuna_direction(mode: str) -> str:
    """Return Optuna's word for `mode`: maximize for max, minimize for min."""
    return f"{mode}imize"


def study_seed(seed: int | None, storage: str | None, study: str) -> int | None:
    """Return `seed` and how many trials a study of Optuna has: a search that goes on draws none of them again.

    Optuna stores trials, and no state of the sampler that drew them.
    """
    kind, _, path = str(storage).partition(":///")
    if seed is None or storage is None or (kind == "sqlite" and not Path(path).is_file()):
        return seed
    from optuna.study import get_all_study_summaries  # only where sweep=optuna asks

    return seed + sum(each.n_trials for each in get_all_study_summaries(storage) if each.study_name == study)


def register() -> None:
    """Make the resolvers known to OmegaConf; cached, so that every use in one config gives one value."""
    for resolver in (run_stamp, unless_kept, mixed_precision, ddp_devices, optuna_direction, study_seed):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, use_cache=True, replace=True)
