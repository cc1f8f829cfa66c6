"""A DataModule that is given transforms for each split, and loads with those of its own."""

SOURCE = "Lightning-Universe/lightning-bolts 54d28d254"
WRONG = "The transforms that the user gives are kept and never applied: the loaders take the default ones."
NAMED = {
    "run/argument-without-effect": "self.(train|val)_transforms",
    "config/unread-key": "train_transforms|transforms",
}
MEND = {
    "train.py": {
        f"transforms or Plain()\n        return DataLoader(Transformed(self.{split}": (
            f"transforms or self.{split}_transforms or Plain()\n        return DataLoader(Transformed(self.{split}"
        )
        for split in ("train", "val")
    }
}
