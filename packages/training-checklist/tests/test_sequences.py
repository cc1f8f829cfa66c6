"""Networks over sequences of tokens: what they see of their targets, and of padding."""

import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WORDS, PAD = 20, 0
RULES = {"network/sees-its-target", "network/reads-padding", "network/loss-counts-padding"}


def texts(seed):
    """Sequences of several lengths in which each word follows from the one before."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(64):
        length = int(torch.randint(9, 17, (), generator=random))
        start = torch.randint(WORDS - 1, (), generator=random)
        found.append(1 + (start + 3 * torch.arange(length)) % (WORDS - 1))
    return found


def collate(found):
    tokens = pad_sequence(found, batch_first=True, padding_value=PAD)
    is_even = tokens[:, 0] % 2 == 0
    return {"is_even": is_even, "tokens": tokens, "mask": tokens != PAD, "label": tokens[:, 0] % 4}


class Texts(LightningDataModule):
    def train_dataloader(self):
        return DataLoader(texts(0), batch_size=16, collate_fn=collate)

    def val_dataloader(self):
        return DataLoader(texts(1), batch_size=16, collate_fn=collate)


class Model(LightningModule):
    """Predicts the next word; every option is a way to get that wrong."""

    causal, masked, ignore, shift, kind = True, True, PAD, 1, "attention"

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 16)
        self.places = nn.Embedding(32, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.conv = nn.Conv1d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, WORDS)

    def forward(self, tokens, mask):
        length = tokens.shape[1]
        hidden = self.table(tokens) + self.places(torch.arange(length, device=tokens.device))
        if self.kind == "convolution":
            return self.head(torch.relu(self.conv(hidden.mT).mT))
        future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1) if self.causal else None
        hidden = self.layer(hidden, src_mask=future, src_key_padding_mask=~mask if self.masked else None)
        return self.head(hidden)

    def training_step(self, batch, batch_idx):
        answers = self(batch["tokens"], batch["mask"])
        targets = batch["tokens"]
        if self.shift:
            answers, targets = answers[:, :-1], targets[:, 1:]
        return functional.cross_entropy(answers.reshape(-1, WORDS), targets.reshape(-1), ignore_index=self.ignore)

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


class Labelled(Model):
    """Tells one class of a whole sequence, by a mean over its words."""

    causal, over_padding = False, False

    def training_step(self, batch, batch_idx):
        answers, mask = self(batch["tokens"], batch["mask"]), batch["mask"].unsqueeze(2)
        mean = answers.mean(1) if self.over_padding else (answers * mask).sum(1) / mask.sum(1)
        return functional.cross_entropy(mean, batch["label"])


class Restored(Model):
    """Puts its words together again by a mean error over all positions, which at those of padding is 0."""

    causal = False

    def training_step(self, batch, batch_idx):
        mask = batch["mask"].unsqueeze(2)
        wanted = functional.one_hot(batch["tokens"], WORDS) * mask
        return functional.mse_loss(self(batch["tokens"], batch["mask"]) * mask, wanted.float())


CASES = {
    "as it should be": (Model, {}, set()),
    "sees the future": (Model, {"causal": False}, {"network/sees-its-target"}),
    "by convolutions": (Model, {"kind": "convolution"}, {"network/sees-its-target"}),
    "is not shifted": (Model, {"shift": 0}, {"network/sees-its-target"}),
    "puts a whole text together again": (Model, {"shift": 0, "causal": False}, set()),
    "a mean error over padding": (Restored, {}, set()),
    "a loss that counts padding": (Model, {"ignore": -100}, {"network/loss-counts-padding"}),
    # A position sees none after it, and padding comes after all words.
    "causal, without a mask of padding": (Model, {"masked": False}, set()),
    "a label for each text": (Labelled, {}, set()),
    "attention to padding": (Labelled, {"masked": False}, {"network/reads-padding"}),
    "a mean over padding": (Labelled, {"over_padding": True}, {"network/reads-padding"}),
    "convolutions at the end of a text": (Labelled, {"kind": "convolution"}, set()),
}


def test_decoder_that_is_given_its_targets_is_a_remark(examine):
    class Taught(Model):
        def training_step(self, batch, batch_idx):
            given, targets = batch["tokens"][:, :-1].contiguous(), batch["next"]
            answers = self(given, given != PAD) + self(targets, targets != PAD)
            return functional.cross_entropy(answers.reshape(-1, WORDS), targets.reshape(-1), ignore_index=PAD)

    class Pairs(Texts):
        def train_dataloader(self):
            def pair(found):
                tokens = collate(found)["tokens"]
                return {"tokens": tokens, "next": tokens[:, 1:].contiguous()}

            return DataLoader(texts(0), batch_size=16, collate_fn=pair)

        val_dataloader = train_dataloader

    found = [each for each in examine("trace", Taught(), Pairs()).findings if each.rule == "network/sees-its-target"]
    assert {each.severity for each in found} == {"remark"}


def test_text_that_is_cut_into_pieces_has_no_padding(examine):
    class Pieces(LightningDataModule):
        def train_dataloader(self):
            words = 1 + torch.arange(16 * 64) ** 2 % 7
            return DataLoader(words.reshape(64, 16), batch_size=16, collate_fn=lambda each: collate(list(each)))

    class Piecewise(Model):
        ignore = -100

        def validation_step(self):
            pass

    verdict = examine("trace", Piecewise(), Pieces(), limit_val_batches=0)
    assert not {each.rule for each in verdict.findings} & {"network/reads-padding", "network/loss-counts-padding"}


@pytest.mark.parametrize("case", CASES)
def test_sequences(examine, case):
    kind, options, expected = CASES[case]
    verdict = examine("trace", type("Case", (kind,), options)(), Texts())
    assert {each.rule for each in verdict.findings} & RULES == expected
    if case == "convolutions at the end of a text":
        assert "may read padding on purpose" in verdict.unjudged["network/reads-padding"]
