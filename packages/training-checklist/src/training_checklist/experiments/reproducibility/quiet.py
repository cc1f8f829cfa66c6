"""A run of this process of which nobody is to hear."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def silenced(output: Any) -> Iterator[None]:
    """Send what is printed and logged to `output`, and put logging back as it was."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, logging.root.manager.disable
    redirect_handlers(sys.stderr, output)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
    finally:
        redirect_handlers(output, sys.stderr)
        for handler in set(root.handlers) - set(handlers):
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)


def redirect_handlers(old: Any, new: Any) -> None:
    """Let every logger's handler that writes to `old` write to `new`: Lightning's keep the stream of their making."""
    loggers = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    for handler in [handler for logger in loggers for handler in logger.handlers]:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            with contextlib.suppress(AttributeError):  # a stream without a setter finds the present one by itself
                handler.setStream(new)
