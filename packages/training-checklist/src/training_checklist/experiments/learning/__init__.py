"""Whether training can get anywhere, and whether its numbers are right. The item itself is in item.py."""
