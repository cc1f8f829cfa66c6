from hydra.errors import CompactHydraException


class ConfigError(CompactHydraException):
    """A mistake in what the user asked for. Hydra prints its message without a traceback and exits with 1."""
