"""Sequences: what windows hold, in which order training reads them, their masks, and their tokens."""

import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

SERIES, STEPS, PAST, FUTURE = 8, 80, 12, 4


def windows(overlap=0, scale=1.0):
    """Return windows of random walks, and what follows them, from `overlap` steps before their end on."""
    walks = torch.randn(SERIES, STEPS, generator=torch.Generator().manual_seed(0)).cumsum(1)
    starts = range(STEPS - PAST - FUTURE)
    past = [walk[start : start + PAST, None] for walk in walks for start in starts]
    begin = PAST - overlap
    future = [walk[start + begin : start + begin + FUTURE] for walk in walks for start in starts]
    return TensorDataset(torch.stack(past), scale * torch.stack(future))


class Windows(LightningDataModule):
    def __init__(self, dataset, shuffle=True):
        super().__init__()
        self.dataset, self.shuffle = dataset, shuffle

    def train_dataloader(self):
        return DataLoader(self.dataset, 16, shuffle=self.shuffle)


class Forecaster(LightningModule):
    def __init__(self, masked=False):
        super().__init__()
        self.net, self.masked = nn.Linear(PAST, FUTURE), masked

    def training_step(self, batch, batch_idx):
        past, future = batch
        answers = self.net(past.flatten(1))
        if self.masked:  # a loss by hand, which torch's criteria do not tell of
            return ((answers - future) ** 2 * (future > -5)).mean()
        return functional.mse_loss(answers, future)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def rules(verdict):
    return [finding.rule for finding in verdict.findings]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("overlap", [0, 1])
def test_window_that_is_a_step_too_long(examine, overlap, scale, masked):
    verdict = examine("limit_batches", Forecaster(masked), Windows(windows(overlap, scale)))
    found = [finding for finding in verdict.findings if finding.rule == "data/part-of-target-among-inputs"]
    assert len(found) == overlap
    if found:
        assert "batch[1][:, 0], which is to be predicted" in found[0].what
        assert "batch[0][:, 11, 0]" in found[0].what


def test_decoder_that_is_given_most_of_its_target(examine):
    assert "data/part-of-target-among-inputs" not in rules(
        examine("limit_batches", Forecaster(), Windows(windows(overlap=3)))
    )


@pytest.mark.parametrize("order", ["shuffled", "in order", "mixed before"])
def test_windows_that_follow_one_another_in_a_batch(examine, order):
    dataset = windows()
    if order == "mixed before":
        mixed = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(1))
        dataset = TensorDataset(*(part[mixed] for part in dataset.tensors))
    found = rules(examine("limit_batches", Forecaster(), Windows(dataset, shuffle=order == "shuffled")))
    assert ("data/neighbours-in-one-batch" in found) == (order == "in order")


@pytest.mark.parametrize("use", ["in the loss", "in the network", "nowhere", "nowhere, as it is the code of a class"])
def test_mask_that_training_does_not_ask_for(examine, use):
    class Masked(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 6)

        def training_step(self, batch, batch_idx):
            values, mask = batch["values"], batch["mask"]
            answers = self.net(values * mask if use == "in the network" else values)
            squares = (answers - values) ** 2
            return (squares * mask).sum() / mask.sum() if use == "in the loss" else squares.mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    class Gaps(LightningDataModule):
        def train_dataloader(self):
            values = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
            least = values.amax(1, keepdim=True) if use.endswith("class") else -1
            samples = [
                {"values": each, "mask": mask} for each, mask in zip(values, (values >= least).float(), strict=True)
            ]
            return DataLoader(samples, 16, shuffle=True)

    found = rules(examine("limit_batches", Masked(), Gaps()))
    assert ("data/mask-without-effect" in found) == (use == "nowhere")


@pytest.mark.parametrize("use", ["in the network", "nowhere"])
def test_lengths_that_training_does_not_ask_for(examine, use):
    class Pooled(LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.head = nn.Linear(3, 8), nn.Linear(8, 2)

        def training_step(self, batch, batch_idx):
            values, lengths, labels = batch
            seen = torch.arange(values.shape[1]) < (lengths if use == "in the network" else lengths + 99)[:, None]
            features = (self.net(values) * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
            return functional.cross_entropy(self.head(features), labels)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    class Padded(LightningDataModule):
        def train_dataloader(self):
            draw = torch.Generator().manual_seed(0)
            values, lengths = torch.randn(64, 12, 3, generator=draw), torch.randint(4, 13, (64,), generator=draw)
            values[torch.arange(12) >= lengths[:, None]] = 0
            return DataLoader(TensorDataset(values, lengths, torch.arange(64) % 2), 16, shuffle=True)

    found = rules(examine("limit_batches", Pooled(), Padded()))
    assert ("data/mask-without-effect" in found) == (use == "nowhere")


@pytest.mark.parametrize("known", [True, False])
def test_texts_of_unknown_words(examine, known):
    class Reader(LightningModule):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(200, 8), nn.Linear(8, 2)

        def training_step(self, batch, batch_idx):
            return functional.cross_entropy(self.head(self.table(batch[0]).mean(1)), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    class Texts(LightningDataModule):
        def train_dataloader(self):
            draw = torch.Generator().manual_seed(0)
            tokens = torch.randint(2, 200, (128, 12), generator=draw)
            if not known:
                tokens[torch.rand(tokens.shape, generator=draw) < 0.5] = 1
            tokens[:, 8:] = 0  # padding
            return DataLoader(TensorDataset(tokens, torch.arange(128) % 2), 16, shuffle=True)

    found = rules(examine("limit_batches", Reader(), Texts()))
    assert ("data/one-token-for-most" in found) != known


def test_lengths_by_which_frozen_embeddings_are_packed_are_no_input(examine):
    class Recurrent(LightningModule):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(200, 8).requires_grad_(False)
            self.recurrent, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 4)

        def training_step(self, batch, batch_idx):
            tokens, lengths, labels = batch
            options = {"batch_first": True, "enforce_sorted": False}
            packed = nn.utils.rnn.pack_padded_sequence(self.table(tokens), lengths, **options)
            return functional.cross_entropy(self.head(self.recurrent(packed)[1][0][0]), labels)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    class Texts(LightningDataModule):
        def train_dataloader(self):
            draw = torch.Generator().manual_seed(0)
            tokens, lengths = torch.randint(2, 200, (128, 12), generator=draw), torch.arange(128) // 16 + 5
            tokens[torch.arange(12) >= lengths[:, None]] = 0  # padding
            return DataLoader(TensorDataset(tokens, lengths, torch.arange(128) % 4), 16, shuffle=True)

    assert "data/same-input-other-target" not in rules(examine("limit_batches", Recurrent(), Texts()))
