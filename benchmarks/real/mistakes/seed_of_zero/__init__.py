"""A script that is given the seed 0."""

SOURCE = "openvinotoolkit/anomalib 2cc43a7e0"
WRONG = "The seed is set where it is not 0, and 0 is a seed like any other: no run is like the one before."
NAMED = {"reproducibility/no-seed": "seed"}
ITEMS = ("fast_dev_run", "config", "reproducibility")
