"""Lightning as people usually write it, one of the contenders: python usual.py --help

A torchvision dataset with a transform for each sample, worker processes, a metric and two logged values in every step.
"""

import argparse
from pathlib import Path

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from bare import MEAN, STD, VAL_SIZE, cnn
from callbacks import TakeTurns
from torch.utils.data import DataLoader, Subset
from torchmetrics.classification import MulticlassAccuracy
from torchvision import datasets, transforms


class Usual(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = cnn()
        self.accuracies = torch.nn.ModuleDict(
            {f"on_{part}": MulticlassAccuracy(10) for part in ("train", "val", "test")}
        )

    def step(self, batch, part: str) -> torch.Tensor:
        images, labels = batch
        logits = self.net(images)
        loss = F.cross_entropy(logits, labels)
        accuracy = self.accuracies[f"on_{part}"]
        accuracy(logits, labels)
        self.log(f"{part}/loss", loss, prog_bar=True)
        self.log(f"{part}/accuracy", accuracy, prog_bar=True, on_epoch=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")

    def test_step(self, batch, batch_idx):
        self.step(batch, "test")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def main(arguments: argparse.Namespace) -> None:
    pl.seed_everything(42, workers=True)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])
    dataset = getattr(datasets, arguments.dataset)
    train, test = (dataset(arguments.data.parents[1], train=part, transform=transform) for part in (True, False))
    options = {"batch_size": arguments.batch_size, "num_workers": arguments.workers, "persistent_workers": True}
    loaders = [
        DataLoader(Subset(train, range(VAL_SIZE, len(train))), shuffle=True, pin_memory=True, **options),
        DataLoader(Subset(train, range(VAL_SIZE)), pin_memory=True, **options),
    ]
    trainer = pl.Trainer(
        accelerator="gpu" if arguments.device == "cuda" else "cpu",
        devices=1,
        max_epochs=arguments.epochs,
        limit_train_batches=1.0 if arguments.limit < 0 else arguments.limit,
        callbacks=[TakeTurns(arguments.stretch)],
        enable_checkpointing=False,
        logger=False,
    )
    model = Usual()
    trainer.fit(model, *loaders)
    trainer.test(model, DataLoader(test, **options), verbose=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the four IDX files, unpacked")
    parser.add_argument("--dataset", default="FashionMNIST", help="torchvision's name of the data")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=-1, help="batches of an epoch; -1 takes all")
    parser.add_argument("--stretch", type=int, default=50, help="batches of a turn")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    main(parser.parse_args())
