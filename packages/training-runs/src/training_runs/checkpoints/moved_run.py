"""What a checkpoint says of files, made true again where their directory has been moved or copied."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytorch_lightning.callbacks import Checkpoint


def relocate(callbacks: Iterable[Checkpoint], checkpoint: dict[str, Any]) -> None:
    """Have the saved state of every ModelCheckpoint name its files where they lie now.

    Lightning 2.6.6 drops the best score where the directory is another one than it was: the next epoch then replaces
    best.ckpt, however bad it is. Files that did not come along keep their old names.
    """
    for callback in callbacks:
        state = checkpoint.get("callbacks", {}).get(callback.state_key, {})
        former, here = state.get("dirpath"), getattr(callback, "dirpath", None)
        if None not in (former, here) and former != here:
            checkpoint["callbacks"][callback.state_key] = moved(state, Path(former), Path(here))


def moved(value: Any, former: Path, here: Path) -> Any:
    """Return a state whose paths in `former`, of keys too, are those in `here` where there is such a file."""
    if isinstance(value, dict):
        return {moved(key, former, here): moved(part, former, here) for key, part in value.items()}
    if isinstance(value, str) and Path(value).is_relative_to(former):
        there = here / Path(value).relative_to(former)
        return str(there) if there.exists() else value
    return value
