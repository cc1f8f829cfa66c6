"""Gradients that are missing, zero, vanishing or exploding, and why. The item itself is in item.py."""
