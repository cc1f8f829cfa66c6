"""Contrastive learning, in which each sample is to find its other view, in several processes."""

SOURCE = "lightly-ai/lightly 76b7dba5"
WRONG = (
    "Labels are moved on by rank x batch size, as if negatives were gathered from all ranks, where they are not: rank "
    "1 learns to find wrong samples."
)
NAMED: dict[str, str] = {}
NEEDS = (
    "a run of one batch on each rank: with the same weights and samples the loss is to be the same, whatever the rank. "
    "What DDP averages afterwards is the same on all ranks, so that nothing parts"
)
ITEMS = ("fast_dev_run", "trace", "distributed")
MEND = {
    "train.py": {
        "labels = labels + self.rank() * len(one)": "labels = labels + (self.rank() * len(one) if self.gather else 0)",
    }
}
