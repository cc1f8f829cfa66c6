import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from lightning.pytorch.demos import LightningTransformer
from omegaconf import DictConfig
from torch.utils.data import DataLoader, Dataset


class Walks(Dataset):
    """Token sequences in which each token follows from the one before, mostly."""

    def __init__(self, samples: int, length: int, vocab_size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        steps = torch.randint(1, 3, (samples, length + 1), generator=generator)
        start = torch.randint(vocab_size, (samples, 1), generator=generator)
        self.tokens = (start + steps.cumsum(1)) % vocab_size

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.tokens[index, :-1], self.tokens[index, 1:]


class Walker(LightningTransformer):
    def prepare_data(self) -> None:
        """The demo would download WikiText2 here."""


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    train = DataLoader(Walks(640, cfg.length, cfg.vocab_size, seed=1), batch_size=cfg.batch_size, shuffle=True)
    val = DataLoader(Walks(64, cfg.length, cfg.vocab_size, seed=2), batch_size=cfg.batch_size)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Walker(vocab_size=cfg.vocab_size), train, val)


if __name__ == "__main__":
    main()
