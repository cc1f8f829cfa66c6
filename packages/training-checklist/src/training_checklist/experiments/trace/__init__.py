"""One batch's way through the network to the criterion. The item itself is in item.py."""
