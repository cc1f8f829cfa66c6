"""Checks that give verdicts on a training run: one file an item of the checklist, wired in by conf/debug/ alone.

Nothing outside this package knows it, and it knows nothing of the project: torch, Lightning, Hydra, torchmetrics and
Rich are all that it imports, and any LightningModule and DataModule can be checked.
"""
