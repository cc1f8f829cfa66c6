"""Takes secrets out of what Hydra itself writes and prints."""

import logging
import os
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from training_config.secret_values import (
    add_names,
    found_in,
    redact_override,
    redact_text,
    secret_values,
    without_secrets,
)
from training_config.yaml_files import read_plain


class Redaction(Callback):
    """Hydra's callback that redacts its config files, its log and the overrides that a job returns.

    Args:
        names: further names of keys whose values are secrets, such as `pin` or `*_session`, in snake_case.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = list(names)
        add_names(self.names)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        add_names(self.names)  # a launcher may have brought this job into another process
        secrets = secret_values(config)
        for handler in logging.getLogger().handlers if secrets else ():
            handler.setFormatter(RedactingFormatter(handler.formatter or logging.Formatter(), secrets))
        if config.hydra.output_subdir is not None:
            for path in Path(config.hydra.runtime.output_dir, config.hydra.output_subdir).glob("*.yaml"):
                redact_file(path, secrets)
        redact_file(Path(config.hydra.sweep.dir, "multirun.yaml"), secrets)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        job_return.overrides = [redact_override(text) for text in job_return.overrides]


class RedactingFormatter(logging.Formatter):
    """What another formatter makes of a record, without secrets."""

    def __init__(self, formatter: logging.Formatter, secrets: set[str]) -> None:
        super().__init__()
        self.formatter = formatter
        self.secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(self.formatter.format(record), self.secrets)


def redact_file(path: Path, secrets: Set[str] = frozenset()) -> None:
    """Replace a YAML file by one without secrets, its own and those given; one that has none is not touched."""
    if not path.is_file():
        return
    plain = read_plain(path)
    secrets = secrets | set(found_in(plain))  # that of a sweep has the secrets of all jobs
    if without_secrets(plain, secrets) != plain:
        content = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        OmegaConf.save(OmegaConf.create(without_secrets(content, secrets)), draft)
        draft.replace(path)
