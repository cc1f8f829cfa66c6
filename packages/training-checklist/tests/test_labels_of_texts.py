"""Labels of texts and of their tokens: where they stand, what they mean, and which of them metrics count."""

import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

WORDS, TAGS, IGNORED = 60, 5, -100


def texts(number, seed, shift=0, renamed=0, of_neighbour=False):
    """Return tokens of several lengths with their tags: a tag for each of four words, and 0 for all others."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(number):
        length = int(torch.randint(6, 14, (), generator=random))
        tokens = torch.randint(1, WORDS, (length,), generator=random)
        tags = torch.where(tokens < 25, 1 + tokens % 4, 0)
        if of_neighbour:  # which of two tags a word has, the word in front of it says
            tags = torch.where(tags > 0, 1 + tokens.roll(1) % 4, 0)
        tags = torch.where(tags > 0, 1 + (tags - 1 + renamed) % 4, 0)
        found.append((tokens, tags.roll(shift)))
    return found


def collate(samples):
    tokens, tags = zip(*samples, strict=True)
    pad = nn.utils.rnn.pad_sequence
    return pad(tokens, batch_first=True), pad(tags, batch_first=True, padding_value=IGNORED)


def collate_whole(samples):
    """Give each text one label: whether its words are mostly of the first half."""
    tokens = nn.utils.rnn.pad_sequence([tokens for tokens, _ in samples], batch_first=True)
    return tokens, torch.tensor([int((text < 30).float().mean() > 0.5) for text, _ in samples])


class Texts(LightningDataModule):
    def __init__(self, train, held, collate=collate):
        super().__init__()
        self.train, self.held, self.collate = train, held, collate

    def train_dataloader(self):
        return DataLoader(self.train, 16, shuffle=True, collate_fn=self.collate)

    def val_dataloader(self):
        return DataLoader(self.held, 16, collate_fn=self.collate)


class Tagger(LightningModule):
    def __init__(self, counts="all that count"):
        super().__init__()
        self.counts = counts
        self.embedding, self.head = nn.Embedding(WORDS, 16, padding_idx=0), nn.Linear(16, TAGS)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))

    def training_step(self, batch, batch_idx):
        return functional.cross_entropy(self(batch[0]).transpose(1, 2), batch[1], ignore_index=IGNORED)

    def validation_step(self, batch, batch_idx):
        logits = self(batch[0])
        self.log("val/loss", functional.cross_entropy(logits.transpose(1, 2), batch[1], ignore_index=IGNORED))
        answers, tags = logits.argmax(-1), batch[1]
        if self.counts == "all that count":
            answers, tags = answers[tags != IGNORED], tags[tags != IGNORED]
        if self.counts == "padding as right":
            tags = tags.clamp_min(0)
        self.log("val/f1", 2 * ((answers == tags) & (tags > 0)).sum() / ((answers > 0).sum() + (tags > 0).sum()))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


class Reader(Tagger):
    """Answers once for a text."""

    def forward(self, tokens):
        return self.head(self.embedding(tokens).mean(1))

    def training_step(self, batch, batch_idx):
        return functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", functional.cross_entropy(self(batch[0]), batch[1]))


def rules(verdict):
    return [finding.rule for finding in verdict.findings]


@pytest.mark.parametrize("counts", ["all that count", "padding as wrong", "padding as right"])
def test_metric_that_counts_padding(examine, counts):
    found = rules(examine("learning", Tagger(counts), Texts(texts(160, 0), texts(64, 1))))
    assert ("learning/metric-counts-ignored" in found) == (counts != "all that count")


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("of_neighbour", [False, True])
def test_tags_one_place_beside_their_tokens(examine, shift, of_neighbour):
    data = [texts(number, seed, shift, of_neighbour=of_neighbour) for number, seed in ((160, 0), (64, 1))]
    verdict = examine("limit_batches", Tagger(), Texts(*data))
    found = [finding for finding in verdict.findings if finding.rule == "data/labels-of-other-tokens"]
    assert len(found) == abs(shift)
    if found:
        assert f"the tokens 1 {'before' if shift > 0 else 'after'} those at its place" in found[0].what


@pytest.mark.parametrize("renamed", [0, 1])
def test_tags_that_mean_something_else_in_validation(examine, renamed):
    data = Texts(texts(160, 0), texts(64, 1, renamed=renamed))
    assert ("data/classes-renamed" in rules(examine("limit_batches", Tagger(), data))) == bool(renamed)


def test_labels_of_a_language_s_vocabulary_take_no_memory_by_its_square(examine):
    class Wide(Tagger):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 100_000)

    verdict = examine("limit_batches", Wide(), Texts(texts(64, 0), texts(64, 1, renamed=1)))
    assert (verdict.error, "data/classes-renamed" in rules(verdict)) == (None, True)


@pytest.mark.parametrize(("padding", "is_masked", "told"), [(0, False, 1), (0, True, 0), (None, False, 0)])
def test_filling_is_known_by_the_embedding(examine, padding, is_masked, told):
    class Counting(Reader):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(WORDS, 16, padding_idx=padding)

        def forward(self, tokens):
            kept = (tokens != 0) | (not is_masked)
            return self.head((self.embedding(tokens) * kept[..., None]).sum(1) / kept.sum(1, keepdim=True))

    found = rules(examine("trace", Counting(), Texts(texts(64, 0), texts(32, 1), collate_whole)))
    assert found.count("network/reads-padding") == told


@pytest.mark.parametrize("shuffled", [False, True])
def test_labels_of_other_texts(examine, shuffled):
    class Data(Texts):
        def val_dataloader(self):
            return DataLoader(self.held, 16, collate_fn=self.shuffling if shuffled else self.collate)

        def shuffling(self, samples):
            tokens, labels = collate_whole(samples)
            return tokens, labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(len(tokens)))]

    verdict = examine("limit_batches", Reader(), Data(texts(400, 0), texts(200, 1), collate_whole))
    assert ("data/held-out-labels-unrelated" in rules(verdict)) == shuffled


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_words_that_are_unknown_in_held_out_texts_alone(examine, share):
    def forget(tokens):
        return torch.where(torch.rand(len(tokens), generator=random) < share, 59, tokens)

    random = torch.Generator().manual_seed(2)
    held = [(forget(tokens), tags) for tokens, tags in texts(160, 1)]
    found = rules(examine("limit_batches", Tagger(), Texts(texts(320, 0), held)))
    assert ("data/token-of-held-out-texts" in found) == bool(share)


@pytest.mark.parametrize("ignored", ["padding", "words"])
def test_class_of_words_that_is_ignored(examine, ignored):
    class Ignoring(Tagger):
        def training_step(self, batch, batch_idx):
            tags = batch[1].clamp_min(0) if ignored == "words" else batch[1]
            index = 0 if ignored == "words" else IGNORED
            return functional.cross_entropy(self(batch[0]).transpose(1, 2), tags, ignore_index=index)

    class Clamped(Texts):
        def on_after_batch_transfer(self, batch, dataloader_idx):
            return batch[0], batch[1].clamp_min(0) if ignored == "words" else batch[1]

    found = rules(examine("limit_batches", Ignoring(), Clamped(texts(160, 0), texts(64, 1))))
    assert ("data/words-ignored" in found) == (ignored == "words")


class ByLength(torch.utils.data.Sampler):
    """Batches of texts of one length, as far as that is possible."""

    def __init__(self, samples):
        order = sorted(range(len(samples)), key=lambda index: len(samples[index][0]))
        self.batches = [order[start : start + 16] for start in range(0, len(order), 16)]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


class InBuckets(Texts):
    def train_dataloader(self):
        return DataLoader(self.train, batch_sampler=ByLength(self.train), collate_fn=self.collate)


class WithPadding(Tagger):
    """Takes padding for words of the first tag, or flattens the tags in another order than the answers."""

    def __init__(self, mistake):
        super().__init__()
        self.mistake = mistake

    def training_step(self, batch, batch_idx):
        logits, tags = self(batch[0]), batch[1]
        if self.mistake == "padding counts":
            tags = tags.clamp_min(0)
        tags = tags.t() if self.mistake == "order" else tags
        return functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)


@pytest.mark.parametrize("mistake", ["none", "padding counts"])
def test_padding_is_looked_at_where_batches_hold_texts_of_one_length(examine, mistake):
    found = rules(examine("trace", WithPadding(mistake), InBuckets(texts(160, 0), texts(64, 1))))
    assert ("network/loss-counts-padding" in found) == (mistake != "none")


@pytest.mark.parametrize("mistake", ["none", "order"])
def test_answers_that_are_compared_with_tags_of_other_texts(examine, mistake):
    found = rules(examine("trace", WithPadding(mistake), Texts(texts(160, 0), texts(64, 1))))
    assert ("network/targets-of-other-samples" in found) == (mistake == "order")


class Recurrent(Tagger):
    """Reads texts in both directions, up to their lengths, or padding as well."""

    def __init__(self, asks):
        super().__init__()
        self.asks = asks
        self.rnn, self.head = nn.GRU(16, 8, bidirectional=True, batch_first=True), nn.Linear(16, TAGS)

    def training_step(self, batch, batch_idx):
        words, tags, lengths = self.embedding(batch[0]), batch[1], batch[2]
        if self.asks:
            words = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        answers = self.rnn(words)[0]
        if self.asks:
            answers, _ = nn.utils.rnn.pad_packed_sequence(answers, batch_first=True, total_length=tags.shape[1])
        return functional.cross_entropy(self.head(answers).transpose(1, 2), tags, ignore_index=IGNORED)

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))


@pytest.mark.parametrize("asks", [True, False])
def test_lengths_that_nobody_asks_for_in_batches_of_one_length(examine, asks):
    def with_lengths(samples):
        return *collate(samples), torch.tensor([len(tokens) for tokens, _ in samples])

    found = rules(examine("limit_batches", Recurrent(asks), InBuckets(texts(160, 0), texts(64, 1), with_lengths)))
    assert ("data/mask-without-effect" in found) == (not asks)


@pytest.mark.parametrize("cut", [None, 8])
def test_texts_that_are_cut(examine, cut):
    data = [[(tokens[:cut], tags[:cut]) for tokens, tags in texts(160, seed)] for seed in (0, 1)]
    found = rules(examine("limit_batches", Tagger(), Texts(*data)))
    assert ("data/texts-cut" in found) == (cut is not None)
