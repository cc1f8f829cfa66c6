"""A DataModule that is given a batch size, and loaders that have one of their own."""

SOURCE = "Lightning-Universe/lightning-bolts ef34a17a7"
WRONG = "The batch size that the DataModule is given is never used: its loaders have 32 as the default of an argument."
NAMED = {"run/argument-without-effect": "Digits is given batch_size"}
MEND = {
    "train.py": {
        "        self.train, self.val": "        self.batch_size = batch_size\n        self.train, self.val",
        "def train_dataloader(self, batch_size: int = 32)": "def train_dataloader(self)",
        "DataLoader(self.train, batch_size": "DataLoader(self.train, self.batch_size",
        "def val_dataloader(self, batch_size: int = 32)": "def val_dataloader(self)",
        "DataLoader(self.val, batch_size": "DataLoader(self.val, self.batch_size",
    }
}
