"""Contrastive learning, in which each sample is to find its other view, in several processes."""

SOURCE = "lightly-ai/lightly 76b7dba5"
WRONG = (
    "Labels are moved on by rank x batch size, as if negatives were gathered from all ranks, where they are not: rank "
    "1 learns to find wrong samples."
)
NAMED = {"distributed/unlike-one-process": "losses of the ranks'[\\s\\S]*rank\\b"}
ITEMS = ("fast_dev_run", "trace", "distributed")
MEND = {
    "train.py": {
        "labels = labels + self.rank() * len(one)": "labels = labels + (self.rank() * len(one) if self.gather else 0)",
    }
}
