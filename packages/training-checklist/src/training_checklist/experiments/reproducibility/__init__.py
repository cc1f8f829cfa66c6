"""One seed run twice, and a checkpoint resumed. The item itself is in item.py."""
