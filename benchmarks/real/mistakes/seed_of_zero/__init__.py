"""A script that is given the seed 0."""

SOURCE = "openvinotoolkit/anomalib 2cc43a7e0"
WRONG = "The seed is set where it is not 0, and 0 is a seed like any other: no run is like the one before."
NAMED = {"reproducibility/no-seed": r"seed=0|seed_everything"}
ITEMS = ("fast_dev_run", "config", "reproducibility")
MEND = {"train.py": {"if cfg.seed != 0:": 'if cfg.get("seed") is not None:'}}
