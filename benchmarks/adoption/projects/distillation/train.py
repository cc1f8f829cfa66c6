"""Distil a wide network into a small one."""

import hydra
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def convnet(width, classes=6):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(2 * width, classes),
    )


class Glyphs(pl.LightningDataModule):
    """16 x 16 pictures of bars, crosses and frames in noise."""

    def __init__(self, samples, batch_size, noise):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        g = torch.Generator().manual_seed(11)
        n = self.hparams.samples
        shape = torch.randint(6, (n,), generator=g)
        row, column = torch.randint(4, 12, (2, n), generator=g)
        images = torch.zeros(n, 1, 16, 16)
        for i, (s, r, c) in enumerate(zip(shape.tolist(), row.tolist(), column.tolist(), strict=True)):
            if s in (0, 2):
                images[i, 0, r, :] = 1
            if s in (1, 2):
                images[i, 0, :, c] = 1
            if s in (3, 5):
                images[i, 0, r - 3 : r + 4, c - 3] = images[i, 0, r - 3 : r + 4, c + 3] = 1
            if s in (4, 5):
                images[i, 0, r - 3, c - 3 : c + 4] = images[i, 0, r + 3, c - 3 : c + 4] = 1
        images += self.hparams.noise * torch.randn(images.shape, generator=g)
        self.train, self.val = random_split(
            TensorDataset(images, shape), [0.8, 0.2], generator=torch.Generator().manual_seed(3)
        )

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.hparams.batch_size, shuffle=True, num_workers=0)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=128)


class Teacher(pl.LightningModule):
    def __init__(self, width):
        super().__init__()
        self.net = convnet(width)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Student(pl.LightningModule):
    def __init__(self, teacher, width, temperature, alpha, lr):
        super().__init__()
        self.save_hyperparameters(ignore=["teacher"])
        self.student = convnet(width)
        self.teacher = teacher
        self.teacher.freeze()

    def forward(self, x):
        return self.student(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.teacher.eval()
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.hparams.temperature, dim=1)
        logits = self.student(x)
        kd = F.kl_div(F.log_softmax(logits / self.hparams.temperature, dim=1), soft, reduction="batchmean")
        ce = F.cross_entropy(logits, y)
        loss = self.hparams.alpha * self.hparams.temperature**2 * kd + (1 - self.hparams.alpha) * ce
        self.log_dict({"train_kd": kd, "train_ce": ce, "train_loss": loss}, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        agree = (logits.argmax(1) == self.teacher(x).argmax(1)).float().mean()
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), prog_bar=True)
        self.log("val_agreement", agree)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.student.parameters(), lr=self.hparams.lr, weight_decay=1e-2)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)
        return [optimizer], [scheduler]


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig):
    pl.seed_everything(cfg.seed, workers=True)
    data = Glyphs(**cfg.data)
    data.setup()
    teacher = Teacher(cfg.teacher.width)
    optimizer = teacher.configure_optimizers()
    for _ in range(cfg.teacher.epochs):
        for i, batch in enumerate(data.train_dataloader()):
            optimizer.zero_grad()
            teacher.training_step(batch, i).backward()
            optimizer.step()

    student = Student(teacher, **cfg.student)
    callbacks = [instantiate(c) for c in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(student, datamodule=data)
    trainer.validate(student, datamodule=data)


if __name__ == "__main__":
    main()
