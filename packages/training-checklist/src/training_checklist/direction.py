"""Whether more or less of a metric is better, told by the words of its name."""

import re

MORE = {"acc", "accuracy", "f1", "auc", "auroc", "ap", "map", "precision", "recall", "iou", "miou", "jaccard", "dice"}
MORE |= {"exact", "correct", "bleu", "rouge", "psnr", "ssim", "ndcg", "mrr", "kappa", "mcc"}
LESS = {"loss", "error", "err", "mae", "mse", "rmse", "mape", "smape", "nll", "perplexity", "ppl"}
LESS |= {"wer", "cer", "fid", "eer"}


def better(name: str) -> str | None:
    """Return "max" or "min", or None where the name does not tell."""
    words = set(re.findall(r"[a-z]+1?", name.lower()))
    more, less = bool(words & MORE), bool(words & LESS)
    return None if more == less else "max" if more else "min"
