import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from transformers import DistilBertConfig, DistilBertForSequenceClassification

PAD, CLS = 0, 1


class Reviews(pl.LightningDataModule):
    """Sentences of 4 to 20 tokens; a label says which of three topics most of its words belong to."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(0)

        def sample() -> dict:
            label = int(torch.randint(3, (), generator=generator))
            length = int(torch.randint(4, 21, (), generator=generator))
            topic = torch.randint(2 + 20 * label, 22 + 20 * label, (length,), generator=generator)
            other = torch.randint(2, 62, (length,), generator=generator)
            words = torch.where(torch.rand(length, generator=generator) < 0.6, topic, other)
            return {"ids": torch.cat([torch.tensor([CLS]), words]), "label": label}

        samples = [sample() for _ in range(600)]
        self.train, self.val = samples[:500], samples[500:]

    def collate(self, samples: list[dict]) -> dict[str, torch.Tensor]:
        ids = pad_sequence([sample["ids"] for sample in samples], batch_first=True, padding_value=PAD)
        labels = torch.tensor([sample["label"] for sample in samples])
        return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True, collate_fn=self.collate)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size, collate_fn=self.collate)


class Classifier(pl.LightningModule):
    def __init__(self, dim: int, n_layers: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        config = DistilBertConfig(
            vocab_size=64,
            max_position_embeddings=32,
            dim=dim,
            n_layers=n_layers,
            n_heads=2,
            hidden_dim=2 * dim,
            num_labels=3,
        )
        self.model = DistilBertForSequenceClassification(config)
        self.accuracy, self.f1 = MulticlassAccuracy(3), MulticlassF1Score(3)

    def forward(self, **inputs: torch.Tensor):
        return self.model(**inputs)

    def training_step(self, batch: dict, batch_idx: int) -> torch.Tensor:
        return self(**batch).loss

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        outputs = self(**batch)
        with torch.inference_mode():
            predictions = outputs.logits.argmax(dim=1)
            self.accuracy(predictions, batch["labels"])
            self.f1(predictions, batch["labels"])
        self.log("val_loss", outputs.loss, prog_bar=True)
        self.log_dict({"val_accuracy": self.accuracy, "val_f1": self.f1})

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, self.trainer.estimated_stepping_batches)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Classifier(**cfg.model), datamodule=Reviews(**cfg.data))


if __name__ == "__main__":
    main()
