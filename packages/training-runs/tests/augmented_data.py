"""DataModules whose samples are drawn anew in every epoch: on the device, or in workers."""

import torch
from digit_classifier.data import SampleDataModule
from torch.utils.data import DataLoader, Dataset
from training_runs.sampling.epoch_sampler import EpochSampler
from training_runs.sampling.seeded_dataset import SeededDataset


class Shifted(SampleDataModule):
    """Augmented on the device, a batch at a time, from the global generator."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        images, labels = super().on_after_batch_transfer(batch, dataloader_idx)
        if self.trainer.training:
            images = images + torch.rand(len(images), 1, 1, 1)
        return images, labels


class Noisy(Dataset):
    """Augmented in the worker, a sample at a time."""

    def __init__(self, images: Dataset) -> None:
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, label = self.images[index]
        return image + torch.randint(50, image.shape, dtype=torch.uint8), label


class OwnLoader(SampleDataModule):
    """Two workers that begin anew every epoch."""

    def train_dataloader(self):
        dataset = SeededDataset(Noisy(self.train_set), self.seed)
        sampler = EpochSampler(dataset, self.batch_size, self.seed, self.trainer)
        return DataLoader(dataset, self.batch_size, sampler=sampler, num_workers=2)
