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
        if None in (former, here) or former == here:
            continue
        moved = {str(path): str(Path(here) / path.relative_to(former)) for path in files(state, Path(former))}
        moved = {old: new for old, new in moved.items() if Path(new).is_file()}
        if not moved:
            continue
        checkpoint["callbacks"][callback.state_key] = {key: renamed(value, moved) for key, value in state.items()}
        checkpoint["callbacks"][callback.state_key]["dirpath"] = here


def files(state: dict[str, Any], folder: Path) -> list[Path]:
    """Return the paths in `folder` that a ModelCheckpoint's state names."""
    names = [value for value in state.values() if isinstance(value, str)] + [*state.get("best_k_models", {})]
    return [path for path in map(Path, names) if path.is_relative_to(folder) and path != folder]


def renamed(value: Any, moved: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {moved.get(key, key): part for key, part in value.items()}
    return moved.get(value, value) if isinstance(value, str) else value
