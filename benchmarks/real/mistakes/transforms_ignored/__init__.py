"""A DataModule that is given transforms for each split, and loads with those of its own."""

SOURCE = "Lightning-Universe/lightning-bolts 54d28d254"
WRONG = "The transforms that the user gives are kept and never applied: the loaders take the default ones."
NAMED = {
    "config/unread-key": "train_transforms|transforms",
}
NEEDS = "what `config` reads of code: an attribute that is set and that nothing reads counts as read"
MEND = {
    "train.py": {
        f"transforms or Plain()\n        return DataLoader(Transformed(self.{split}": (
            f"transforms or self.{split}_transforms or Plain()\n        return DataLoader(Transformed(self.{split}"
        )
        for split in ("train", "val")
    }
}
