"""Checkpoints that keep the best of a search, by its validation loss."""

SOURCE = "chemprop/chemprop 60ac754c"
WRONG = "The loss is monitored with the mode of a metric that is not: the highest is kept for the best."
NAMED = {"config/mode-reversed": "mode|val/loss"}
MEND = {"config.yaml": {"mode: max": "mode: min"}}
