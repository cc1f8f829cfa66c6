"""Imports a sixth faster."""

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

frozen = False  # gc.get_freeze_count() says so too, but takes a tenth of a second to count


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Let a process import torch, Lightning and the targets of its config without the garbage collector.

    They make a million objects, which stay: to go through them again and again takes a sixth of the start. Later
    collections leave them out, too, until the process ends: what they hold is to be freed then.
    """
    global frozen
    if "torch" in sys.modules:  # what is there is not all imported: a job before this one may have left garbage
        frozen = frozen or gc.get_freeze_count() > 0  # a fork has what its parent did
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        frozen = True
        atexit.register(gc.unfreeze)
        gc.enable()
