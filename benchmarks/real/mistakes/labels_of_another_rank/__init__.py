"""Contrastive learning, in which each sample is to find its other view, in several processes."""

SOURCE = "lightly-ai/lightly 76b7dba5"
WRONG = (
    "The labels are moved on by rank x batch size, as if negatives were gathered from all ranks, where they are not."
)
NAMED = {"crash": "labels|loss|rank 1", "distributed/rank-ended": "1"}
NEEDS = "a finding that holds the labels of rank 1 against its logits"
ITEMS = ("fast_dev_run", "trace", "distributed")
