from .last_checkpoint import LastCheckpoint

__all__ = ["LastCheckpoint"]
