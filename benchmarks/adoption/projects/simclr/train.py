import hydra
import pytorch_lightning as pl
import torch
import torchvision
from hydra.utils import instantiate
from lightly.data import LightlyDataset
from lightly.loss import NTXentLoss
from lightly.models.modules.heads import SimCLRProjectionHead
from lightly.transforms import SimCLRTransform
from omegaconf import DictConfig
from torch import nn


class SimCLR(pl.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        resnet = torchvision.models.shufflenet_v2_x0_5(weights=None)
        self.backbone = nn.Sequential(*list(resnet.children())[:-1], nn.AdaptiveAvgPool2d(1))
        self.projection_head = SimCLRProjectionHead(1024, 128, 64)
        self.criterion = NTXentLoss()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection_head(self.backbone(x).flatten(start_dim=1))

    def training_step(self, batch: tuple, batch_index: int) -> torch.Tensor:
        (view0, view1), _, _ = batch
        loss = self.criterion(self.forward(view0), self.forward(view1))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)


class Stripes(torch.utils.data.Dataset):
    """Stripes of some angle, width and colour, as PIL images with the quarter of their angle as label."""

    def __init__(self, samples: int, size: int) -> None:
        generator = torch.Generator().manual_seed(5)
        to_pil = torchvision.transforms.ToPILImage()
        y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        self.samples = []
        for _ in range(samples):
            angle, width, *colour = torch.rand(5, generator=generator).tolist()
            wave = torch.sin((x * angle + y * (1 - angle)) * (5 + 20 * width))
            self.samples.append((to_pil((wave * 0.5 + 0.5) * torch.tensor(colour).view(3, 1, 1)), int(angle * 4)))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple:
        image, label = self.samples[index]
        return self.transform(image), label


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    transform = SimCLRTransform(input_size=cfg.size, gaussian_blur=0.0)
    dataset = LightlyDataset.from_torch_dataset(Stripes(cfg.samples, cfg.size), transform=transform)
    dataloader = torch.utils.data.DataLoader(dataset, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model=SimCLR(cfg.lr), train_dataloaders=dataloader)


if __name__ == "__main__":
    main()
