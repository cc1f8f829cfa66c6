"""Numbers of bytes in words."""

GIB = 2**30


def in_bytes(count: float) -> str:
    """Return bytes as "1.50 GiB", "23.4 MiB" or "5 KiB"."""
    if count >= GIB / 2:
        return f"{count / GIB:.2f} GiB"
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 1024:.0f} KiB"
