"""Processes of their own for the items: where they lie, what they are asked for, how they begin and end."""
