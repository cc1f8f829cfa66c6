"""Two views that are to agree, and features of all ranks together that are to be spread like a normal distribution."""

SOURCE = "lightly-ai/lightly 753643fd"
WRONG = (
    "The sums over the ranks are made by an all_reduce that knows no gradient: the gradient of that term is too small "
    "by the number of ranks."
)
NAMED = {"distributed/unlike-one-process": "spread"}
ITEMS = ("fast_dev_run", "trace", "distributed")
MEND = {
    "train.py": {
        "from torch.nn import functional": (
            "from torch.distributed.nn import all_reduce\nfrom torch.nn import functional"
        ),
        "distributed.all_reduce(sums)": "sums = all_reduce(sums)",
    }
}
