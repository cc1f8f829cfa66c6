"""What a step takes of an accelerator's memory, and what keeps growing. The item itself is in item.py."""
