import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Let a process import torch, Lightning and the targets of its config without the garbage collector.

    They make a million objects, which stay: to go through them again and again takes a sixth of the start. Later
    collections leave them out, too, until the process ends: what they hold is to be freed then. Needed as long as
    Python collects while it imports, which 3.11 to 3.14 do.
    """
    if "torch" in sys.modules:  # what is there is not all imported: a job before this one may have left garbage
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)
        gc.enable()
