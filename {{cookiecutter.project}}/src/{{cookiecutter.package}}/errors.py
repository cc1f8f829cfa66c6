from hydra.errors import CompactHydraException


class ConfigError(CompactHydraException):
    """A mistake in what the user asked for. Hydra prints its message without a traceback and exits with 1."""


class DataError(CompactHydraException):
    """Data that is missing or damaged. Shown like a `ConfigError`."""


class JobError(CompactHydraException):
    """A job that failed in processes of its own. Their tracebacks have been shown already."""


class CheckpointError(CompactHydraException):
    """A checkpoint that cannot be written. Shown like a `ConfigError`."""
