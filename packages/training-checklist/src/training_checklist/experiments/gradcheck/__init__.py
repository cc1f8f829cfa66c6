"""Analytical gradients against slopes. The item itself is in item.py."""
