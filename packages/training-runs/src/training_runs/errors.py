from hydra.errors import CompactHydraException


class DataError(CompactHydraException):
    """Data that is missing or damaged. Hydra prints its message without a traceback and exits with 1."""


class JobError(CompactHydraException):
    """A job that failed in processes of its own. Their tracebacks have been shown already."""


class DiskError(CompactHydraException):
    """A run that ended because the disk is full. Shown like a `DataError`."""


class CheckpointError(CompactHydraException):
    """A checkpoint that cannot be written, or read. Shown like a `DataError`."""
