"""Ranks that meet at every hook, and who is missing. The item itself is in item.py."""
