"""The data as the network gets them. The item itself is in item.py."""
