"""A whole training, watched at little cost."""
