import torch
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.instruments import WHY, AcceleratorStep, Example, LightningDataModule, Small, loader
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("datamodule"):
        yield mix.fixed(
            f"{mix.origin.name} is a tensor of the CPU",
            f"move it where it is used: self.{mix.attribute}.to(x.device), x being a tensor of the batch",
        )


class Data(LightningDataModule):
    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.ones(4)

    def train_dataloader(self) -> DataLoader:
        return loader()


class Weighted(Small):
    moves = False

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        weights = self.trainer.datamodule.weights
        return super().loss(answers * (weights.to(answers) if self.moves else weights), labels)


PROBE = Probe(
    question="Are tensors that the DataModule keeps moved to the device where a step uses them?",
    why=WHY,
    detect=detect,
    fix=Fix("move it where it is used: .to(x.device), x being a tensor of the batch"),
    faulty=Example(Weighted, Data),
    healthy=Example(type("Moving", (Weighted,), {"moves": True}), Data),
)
