"""A training step on an accelerator that this machine need not have. The item itself is in item.py."""
