"""What a run writes, and where. The item itself is in item.py."""
