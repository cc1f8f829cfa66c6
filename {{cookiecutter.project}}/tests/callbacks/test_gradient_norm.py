import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader

from {{ cookiecutter.package }}.callbacks.gradient_norm import GradientNorm


class Slope(LightningModule):
    """Gradients (3, 4) in every step."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def training_step(self, batch, batch_idx):
        return (self.weight * torch.tensor([3.0, 4.0])).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize(("norm_type", "norm"), [(2, "5.0"), ("inf", "4.0")])
def test_norm_is_that_of_all_gradients_before_clipping(tmp_path, norm_type, norm):
    trainer = Trainer(
        max_steps=4,
        log_every_n_steps=2,
        gradient_clip_val=0.1,
        accelerator="cpu",
        logger=CSVLogger(tmp_path, name="", version=""),
        callbacks=[GradientNorm(norm_type)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Slope(), DataLoader(torch.zeros(4, 1)))
    header, *rows = (tmp_path / "metrics.csv").read_text(encoding="utf-8").split()
    assert [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows] == [
        {"step": step, "train/gradient_norm": norm} for step in ("1", "3")
    ]
