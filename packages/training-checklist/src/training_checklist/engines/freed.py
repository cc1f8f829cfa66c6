"""Memory of what refers to itself, such as copies of a network with hooks: Python counts such objects, not their size.

Left to themselves, the copies that one item makes came to five times what training takes.
"""

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path

STATM = Path("/proc/self/statm")  # Linux alone tells without a library
GROWN = 128 * 2**20  # bytes; for less, a collection takes longer than it is worth: a tenth of a second

_after_last = 0


def give_back() -> None:
    """Free what nothing but itself refers to, and hand it back to the system: the C library keeps pieces of it."""
    global _after_last
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # of another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
    _after_last = resident_bytes() or 0


def give_back_where_grown() -> None:
    """Do so where this process has grown much since the last time."""
    if (resident_bytes() or 0) > _after_last + GROWN:
        give_back()


def resident_bytes() -> int | None:
    """Return how much of this process lies in memory, None where the system does not say so."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
