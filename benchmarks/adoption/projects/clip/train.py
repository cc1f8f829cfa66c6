import hydra
import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0), "white": (1, 1, 1)}
SHAPES = ("disc", "square", "stripe")
PLACES = ("left", "right", "top", "bottom")
WORDS = ["<pad>", "a", "an", "image", "of", "the", "on", "at", *COLOURS, *SHAPES, *PLACES]
TOKEN = {word: i for i, word in enumerate(WORDS)}


class Captions(Dataset):
    """Pictures of one coloured shape, each with a caption of varying length."""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.items = [self.make() for _ in range(n)]

    def pick(self, options):
        return options[torch.randint(len(options), (1,), generator=self.g).item()]

    def make(self):
        colour, shape, place = self.pick(list(COLOURS)), self.pick(SHAPES), self.pick(PLACES)
        cx, cy = {"left": (8, 16), "right": (24, 16), "top": (16, 8), "bottom": (16, 24)}[place]
        y, x = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
        if shape == "disc":
            mask = (x - cx) ** 2 + (y - cy) ** 2 < 30
        elif shape == "square":
            mask = ((x - cx).abs() < 5) & ((y - cy).abs() < 5)
        else:
            mask = ((x - cx).abs() < 7) & ((y - cy).abs() < 2)
        image = mask * torch.tensor(COLOURS[colour]).view(3, 1, 1) + 0.1 * torch.randn(3, 32, 32, generator=self.g)
        text = self.pick([f"{colour} {shape} {place}", f"an image of a {colour} {shape} on the {place}"])
        return image, torch.tensor([TOKEN[word] for word in text.split()])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    images, tokens = zip(*batch, strict=True)
    padded = pad_sequence(tokens, batch_first=True)
    return {"image": torch.stack(images), "input_ids": padded, "attention_mask": padded != 0}


class ImageEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 5, 2, 2), nn.GELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GELU(), nn.Conv2d(32, 32, 3, 2, 1)
        )
        self.proj = nn.Linear(32 * 16, dim)

    def forward(self, x):
        return self.proj(F.gelu(self.features(x)).flatten(1))


class TextEncoder(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), dim, padding_idx=0)
        self.position = nn.Parameter(0.02 * torch.randn(16, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids, mask):
        x = self.embed(ids) + self.position[: ids.shape[1]]
        x = self.norm(self.encoder(x, src_key_padding_mask=~mask))
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class CLIP(pl.LightningModule):
    def __init__(self, dim: int, lr: float, weight_decay: float, warmup_steps: int):
        super().__init__()
        self.save_hyperparameters()
        self.visual = ImageEncoder(dim)
        self.textual = TextEncoder(dim)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, batch):
        image = F.normalize(self.visual(batch["image"]), dim=-1)
        text = F.normalize(self.textual(batch["input_ids"], batch["attention_mask"]), dim=-1)
        return self.logit_scale.exp() * image @ text.t()

    def step(self, batch, stage):
        logits = self(batch)
        target = torch.arange(len(logits), device=self.device)
        loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
        self.log(f"{stage}_loss", loss, prog_bar=True, batch_size=len(logits))
        self.log(f"{stage}_recall@5", (logits.topk(5).indices == target[:, None]).any(1).float().mean(),
                 batch_size=len(logits))  # fmt: skip
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")

    def on_train_batch_end(self, *args):
        with torch.no_grad():
            self.logit_scale.clamp_(0, 4.6052)

    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.ndim >= 2]
        rest = [p for p in self.parameters() if p.ndim < 2]
        optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": self.hparams.weight_decay}, {"params": rest, "weight_decay": 0.0}],
            lr=self.hparams.lr,
            betas=(0.9, 0.98),
        )
        total = self.trainer.estimated_stepping_batches
        warmup = self.hparams.warmup_steps
        scheduler = torch.optim.lr_scheduler.SequentialLR(
            optimizer,
            [
                torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=warmup),
                torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, total - warmup)),
            ],
            milestones=[warmup],
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    train = DataLoader(
        Captions(cfg.data.train, 0), cfg.data.batch_size, shuffle=True, collate_fn=collate, drop_last=True
    )
    val = DataLoader(Captions(cfg.data.val, 1), cfg.data.batch_size, collate_fn=collate)
    model = instantiate(cfg.model)
    trainer = instantiate(cfg.trainer, callbacks=list(instantiate(cfg.callbacks).values()))
    trainer.fit(model, train, val)


if __name__ == "__main__":
    main()
