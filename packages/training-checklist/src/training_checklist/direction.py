"""Whether more or less of a metric is better, told by the words of its name."""

import re

MORE = {"acc", "accuracy", "f1", "auc", "auroc", "ap", "map", "precision", "recall", "iou", "miou", "jaccard", "dice"}
MORE |= {"exact", "correct", "bleu", "rouge", "psnr", "ssim", "ndcg", "mrr", "kappa", "mcc", "pck", "hits", "hit"}
MORE |= {"concordance", "spearman", "pearson", "sensitivity", "specificity", "auprc", "r2", "nmi", "ari"}
MORE |= {"snr", "sdr", "sisnr", "sisdr", "sdri", "sisdri", "stoi", "pesq"}
LESS = {"loss", "error", "err", "mae", "mse", "rmse", "mape", "smape", "nll", "perplexity", "ppl"}
LESS |= {"wer", "cer", "fid", "eer", "lpips", "brier", "crps", "hausdorff", "chamfer", "fpr", "fnr"}
LESS |= {"epe", "mpjpe", "ade", "fde", "rmsle", "wape", "mase", "bpd"}
TURNED = {"neg", "negative", "minus"}  # scikit-learn's neg_mean_squared_error: more of it is better
OF_OTHERS = {"adv", "adversary", "adversarial", "attack", "attacker", "leak", "leakage"}  # whom one may want to fail
EXTREMES = {"min", "max"}  # of one sample among many, or of one epoch: the worst of a better network may be worse
COUNTED = ("epoch", "step")  # which ModelCheckpoint adds to what is logged
AT_RANK = re.compile(r"@\d+(?![.\d])")  # recall@1, hits@10: of the first answers of a ranking

KEEPS = {"MinMetric": "min", "MaxMetric": "max"}  # of torchmetrics, which keep the best of another metric
WORDS_OF_CLASS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*\d*")


def better(name: str) -> str | None:
    """Return "max" or "min", or None where the name does not tell."""
    words = set(re.findall(r"[a-z]+\d?", name.lower())) | set(re.findall("[a-z]+", name.lower()))
    less = bool(words & LESS)
    more = bool(words & MORE or (AT_RANK.search(name) and not less))
    # An accuracy, or a loss, may be that of negative samples.
    of_negatives = bool(words & TURNED) and (more or "loss" in words)
    if more == less or words & OF_OTHERS or of_negatives or words & EXTREMES:
        return None
    return "max" if more != bool(words & TURNED) else "min"


def turned(mode: object, name: str) -> str | None:
    """Return the mode that a metric asks for where this is the other one; None where it is not, or nobody knows."""
    wanted = better(name)
    return wanted if mode in ("min", "max") and wanted != mode else None


def better_of_class(name: str) -> str | None:
    """Return "max" or "min" as the name of a metric's class tells, such as `RelativeError`, or None."""
    return KEEPS.get(name) or better(" ".join(WORDS_OF_CLASS.findall(name)))


def attribute_of(metric: str) -> str:
    """Return the name that an attribute with what is logged as `val/acc` has by custom, val_acc."""
    return re.sub(r"\W", "_", metric)
