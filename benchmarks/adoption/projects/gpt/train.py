import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup

WORDS = ("the", "a", "cat", "dog", "bird", "sees", "hears", "likes", "red", "small", "old", "house", "and", "then")


def corpus(sentences: int) -> list[int]:
    """Characters of simple sentences, as numbers from 0 to 26."""
    generator = torch.Generator().manual_seed(0)
    picks = torch.randint(len(WORDS), (sentences, 6), generator=generator)
    text = " ".join(WORDS[pick] for row in picks for pick in row)
    return [0 if letter == " " else ord(letter) - 96 for letter in text]


class Blocks(Dataset):
    def __init__(self, tokens: list[int], block_size: int) -> None:
        usable = len(tokens) // block_size * block_size
        self.blocks = torch.tensor(tokens[:usable]).view(-1, block_size)

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        block = self.blocks[index]
        return {"input_ids": block, "attention_mask": torch.ones_like(block), "labels": block.clone()}


class GPT(L.LightningModule):
    def __init__(
        self, n_layer: int, n_head: int, n_embd: int, lr: float, warmup_steps: int, weight_decay: float
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        config = GPT2Config(
            vocab_size=27, n_positions=64, n_layer=n_layer, n_head=n_head, n_embd=n_embd, bos_token_id=0, eos_token_id=0
        )
        self.model = GPT2LMHeadModel(config)

    def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        loss = self.model(**batch).loss
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: dict[str, torch.Tensor]) -> None:
        loss = self.model(**batch).loss
        self.log_dict({"val_loss": loss, "val_perplexity": loss.exp()}, prog_bar=True)

    def configure_optimizers(self) -> dict:
        decay = [p for p in self.parameters() if p.dim() >= 2]
        rest = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": decay, "weight_decay": self.hparams.weight_decay}, {"params": rest, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.hparams.lr, betas=(0.9, 0.95))
        total = self.trainer.estimated_stepping_batches
        scheduler = get_cosine_schedule_with_warmup(optimizer, self.hparams.warmup_steps, total)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    tokens = corpus(600)
    split = int(len(tokens) * 0.9)
    train = DataLoader(Blocks(tokens[:split], 32), batch_size=cfg.batch_size, shuffle=True)
    val = DataLoader(Blocks(tokens[split:], 32), batch_size=cfg.batch_size)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(GPT(**cfg.model), train, val)


if __name__ == "__main__":
    main()
