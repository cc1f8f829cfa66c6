"""Where each value of the config comes from, and whether it fits the code. The item itself is in item.py."""
