import hydra
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
import torchmetrics
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, MLP, global_add_pool
from torch_geometric.utils import erdos_renyi_graph


class Model(pl.LightningModule):
    def __init__(
        self, in_channels: int, out_channels: int, hidden_channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.gnn = GIN(in_channels, hidden_channels, num_layers, dropout=dropout, jk="cat")
        self.classifier = MLP([hidden_channels, hidden_channels, out_channels], norm="batch_norm", dropout=dropout)
        self.train_acc = torchmetrics.Accuracy(task="multiclass", num_classes=out_channels)
        self.val_acc = torchmetrics.Accuracy(task="multiclass", num_classes=out_channels)

    def forward(self, x, edge_index, batch) -> torch.Tensor:
        x = self.gnn(x, edge_index)
        return self.classifier(global_add_pool(x, batch))

    def training_step(self, data, batch_idx) -> torch.Tensor:
        y_hat = self(data.x, data.edge_index, data.batch)
        loss = F.cross_entropy(y_hat, data.y)
        self.train_acc(y_hat.softmax(dim=-1), data.y)
        self.log("train_acc", self.train_acc, prog_bar=True, on_step=False, on_epoch=True, batch_size=y_hat.size(0))
        return loss

    def validation_step(self, data, batch_idx) -> None:
        y_hat = self(data.x, data.edge_index, data.batch)
        self.val_acc(y_hat.softmax(dim=-1), data.y)
        self.log("val_acc", self.val_acc, prog_bar=True, on_step=False, on_epoch=True, batch_size=y_hat.size(0))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def graphs(count: int) -> list[Data]:
    """Random graphs that are sparse (class 0) or dense (class 1); node features are the degree and a constant."""
    found = []
    for number in range(count):
        nodes = int(torch.randint(8, 20, ()))
        edge_index = erdos_renyi_graph(nodes, 0.2 if number % 2 == 0 else 0.4)
        degree = torch.bincount(edge_index[0], minlength=nodes).float()
        x = torch.stack([degree / 4, torch.ones(nodes)], dim=1)
        found.append(Data(x=x, edge_index=edge_index, y=torch.tensor([number % 2])))
    return found


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    seed_everything(cfg.seed)
    dataset = graphs(320)
    train_loader = DataLoader(dataset[:256], batch_size=cfg.batch_size, shuffle=True)
    val_loader = DataLoader(dataset[256:], batch_size=cfg.batch_size)
    model = Model(in_channels=2, out_channels=2, **cfg.model)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model, train_loader, val_loader)


if __name__ == "__main__":
    main()
