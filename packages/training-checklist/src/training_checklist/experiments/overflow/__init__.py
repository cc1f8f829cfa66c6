"""The first Inf or NaN, and how far values are from the edge of 16 bits. The item itself is in item.py."""
