"""Small projects as they are found outside, each with one trait that a guest may stumble over."""

NET = """
import {lightning} as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Net(pl.LightningModule):
    def __init__(self, lr=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, inputs):
        return self.head(torch.relu(self.first(inputs)))

    def loss(self, batch):
        return functional.cross_entropy(self(batch[0]), batch[1])

    def training_step(self, batch):
        return self.loss(batch)

    def validation_step(self, batch):
        self.log("val/loss", self.loss(batch))

    def test_step(self, batch):
        self.log("test/loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Data(pl.LightningDataModule):
    def __init__(self, folder=None):
        super().__init__()
        if folder is not None:
            open(f"{{folder}}/numbers.txt").close()

    def part(self, seed, shuffle=False):
        centres = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
        labels = torch.arange(160) % 4
        inputs = centres[labels] + 0.3 * torch.randn(160, 8, generator=torch.Generator().manual_seed(seed))
        return DataLoader(TensorDataset((inputs - inputs.mean()) / inputs.std(), labels), 16, shuffle=shuffle)

    def train_dataloader(self):
        return self.part(1, shuffle=True)

    def val_dataloader(self):
        return self.part(2)

    def test_dataloader(self):
        return self.part(3)
"""

TRAIN = """
import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate
from net import Data, Net


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg):
    pl.seed_everything(0)
    callbacks = [instantiate(each) for each in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks, default_root_dir=cfg.folder)
    net, data = Net(), Data()
    trainer.fit(net, data)
    trainer.test(net, data)


if __name__ == "__main__":
    main()
"""

# Its own debug options, as the forks of a much used template have them, are `configs/debug`.
CONFIG = """
folder: ${hydra:runtime.output_dir}
trainer: {accelerator: cpu, max_epochs: 3, enable_progress_bar: false, enable_model_summary: false}
callbacks: {}
"""

PLAIN = {"net.py": NET.format(lightning="pytorch_lightning"), "train.py": TRAIN, "configs/train.yaml": CONFIG}


def changed(name: str, *pairs: tuple[str, str], **files: str) -> dict[str, str]:
    """Return the plain project with something else in one of its files."""
    text = PLAIN[name]
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return PLAIN | {name: text} | files
