"""Datasets and collate functions that give other data than they seem to, and healthy ones that look like them."""

import threading

import numpy as np
import pytest
import torch
from omegaconf import ListConfig
from pytorch_lightning import LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset
from training_checklist import probes
from training_checklist.lab import examples

SERIES, DAYS, PAST, AHEAD = 6, 120, 16, 7


def walks():
    random = np.random.default_rng(0)
    steps = random.normal(size=(SERIES, DAYS)).astype(np.float32)
    return steps + np.sin(np.arange(DAYS) / 5).astype(np.float32)


class Windows(Dataset):
    """The days before a day, and those from it on."""

    def __init__(self, index):
        self.series, self.index = walks(), index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, position):
        series, day = self.index[position]
        values = self.series[series]
        return {"past": values[day - PAST : day].copy(), "ahead": values[day : day + AHEAD].copy(), "series": series}


class CachedByDay(Windows):
    def __init__(self, index):
        super().__init__(index)
        self.cache = {}

    def __getitem__(self, position):
        return self.cache.setdefault(self.index[position][1], super().__getitem__(position))


class Cached(CachedByDay):
    def __getitem__(self, position):
        return self.cache.setdefault(position, Windows.__getitem__(self, position))


class ScaledInPlace(Windows):
    def __getitem__(self, position):
        series, day = self.index[position]
        self.series[series, day - PAST : day] *= 0.9
        return super().__getitem__(position)


class Noisy(Windows):
    """Draws from a generator of its own, which loading other samples moves on."""

    def __init__(self, index):
        super().__init__(index)
        self.random = np.random.default_rng(1)

    def __getitem__(self, position):
        sample = super().__getitem__(position)
        return sample | {"past": sample["past"] + self.random.normal(size=PAST).astype(np.float32)}


def windows(first, last):
    return [(series, day) for series in range(SERIES) for day in range(first, last - AHEAD + 1)]


def collate(samples):
    return {key: torch.from_numpy(np.stack([sample[key] for sample in samples])) for key in samples[0]}


def sort_the_past(samples):
    batch = collate(samples)
    order = batch["past"].mean(1).argsort()
    return batch | {"past": batch["past"][order]}


def sort_all(samples):
    batch = collate(samples)
    order = batch["past"].mean(1).argsort()
    return {key: values[order] for key, values in batch.items()}


@pytest.fixture
def forecast(examine, net):
    """`forecast(kind, split, collate)`: the findings of limit_batches on a forecast by windows."""

    class Forecast(net):
        def __init__(self):
            super().__init__()
            self.series = nn.Embedding(SERIES, 4)
            self.first, self.head = nn.Linear(PAST + 4, 32), nn.Linear(32, AHEAD)

        def loss(self, batch):
            answer = self(torch.cat([batch["past"], self.series(batch["series"])], 1))
            return (answer - batch["ahead"]).abs().mean()

    class Data(LightningDataModule):
        def __init__(self, kind, splits, together):
            super().__init__()
            self.train_set, self.val_set = (kind(index) for index in splits)
            self.together = together

        def train_dataloader(self):
            return DataLoader(self.train_set, 16, shuffle=True, collate_fn=self.together)

        def val_dataloader(self):
            return DataLoader(self.val_set, 16, collate_fn=self.together)

    by_time = windows(PAST, 80), windows(80, DAYS)

    def run(kind=Windows, splits=by_time, together=collate):
        verdict = examine("limit_batches", Forecast(), Data(kind, splits, together))
        assert verdict.error is None
        return [finding.rule for finding in verdict.findings]

    return run


@pytest.mark.parametrize("kind", [Windows, Cached, Noisy])
@pytest.mark.parametrize("together", [collate, sort_all])
def test_windows_that_are_split_by_time_raise_no_alarm(forecast, kind, together):
    found = forecast(kind, together=together)
    assert not {*found} - ({"data/held-out-is-random"} if kind is Noisy else set())


@pytest.mark.parametrize("kind", [CachedByDay, ScaledInPlace])
def test_sample_that_depends_on_what_was_loaded_before_is_found(forecast, kind):
    assert "data/sample-depends-on-history" in forecast(kind)


def test_windows_that_overlap_those_of_training_are_found(forecast):
    index = windows(PAST, DAYS)
    order = np.random.default_rng(0).permutation(len(index))
    shuffled = [index[place] for place in order]
    assert forecast(splits=(shuffled[:300], shuffled[300:])) == ["data/shared-parts"]


def test_collate_that_sorts_one_part_of_the_batch_alone_is_found(forecast):
    assert "data/parts-of-other-samples" in forecast(together=sort_the_past)


def test_hidden_randomness_leaves_the_rule_without_a_verdict():
    hidden = np.random.default_rng(1)

    def noisy(index, inputs, label):
        return inputs + torch.from_numpy(hidden.normal(size=8)).float(), label

    probe = probes.load("data/sample-depends-on-history")
    item = examples.run(probe, examples.on_datasets(lambda: examples.MappedDataset(noisy)))
    assert "random in a way" in item.unjudged[probe.id]


IMAGES = {
    "stacked": lambda images: images,
    "mirrored": lambda images: images.flip(-1),
    "as BGR": lambda images: images.flip(1),
    "transposed": lambda images: images.transpose(2, 3),
}


@pytest.fixture
def classify(examine, net):
    """`classify(arrange, labels, classes)`: the findings of limit_batches on images that collate arranges."""

    class Images(net):
        def __init__(self, classes):
            super().__init__()
            self.first, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, classes)

        def loss(self, batch):
            features = torch.relu(self.first(batch[0])).mean((2, 3))
            return functional.cross_entropy(self.head(features), batch[1])

    def run(arrange=lambda images: images, labels=4, classes=4):
        class Data(LightningDataModule):
            def part(self, seed):
                images = torch.randn(160, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
                kinds = torch.arange(160) % labels
                return TensorDataset(images + kinds[:, None, None, None] - (labels - 1) / 2, kinds)

            def collate(self, samples):
                images, kinds = zip(*samples, strict=True)
                return arrange(torch.stack(images)), torch.stack(kinds)

            def train_dataloader(self):
                return DataLoader(self.part(1), 16, shuffle=True, collate_fn=self.collate)

            def val_dataloader(self):
                return DataLoader(self.part(2), 16, collate_fn=self.collate)

        verdict = examine("limit_batches", Images(classes), Data())
        assert verdict.error is None
        return [finding.rule for finding in verdict.findings]

    return run


@pytest.mark.parametrize("arrange", IMAGES)
def test_images_that_collate_moves_as_a_whole_raise_no_alarm(classify, arrange):
    assert not classify(IMAGES[arrange])


def test_images_that_collate_scrambles_are_found(classify):
    found = classify(lambda images: images.reshape(len(images), 8, 8, 3).permute(0, 3, 1, 2))
    assert set(found) == {"data/parts-of-other-samples"}


def test_class_that_no_sample_has_is_named(classify):
    assert classify(labels=4, classes=5) == ["data/class-never-labelled"]


class Guarded(Windows):
    """Cannot be copied: a lock belongs to a process."""

    def __init__(self, index):
        super().__init__(index)
        self.lock = threading.Lock()


class Described(Windows):
    """Has something in its samples that no comparison knows."""

    def __getitem__(self, position):
        return super().__getitem__(position) | {"kind": object()}


def collate_known(samples):
    return collate([{key: value for key, value in sample.items() if key != "kind"} for sample in samples])


@pytest.mark.parametrize("kind", [Guarded, Described])
def test_dataset_that_cannot_be_looked_at_raises_no_alarm(forecast, kind):
    assert not forecast(kind, together=collate_known)


class Augmented(Windows):
    """Random in each load, from a clean copy, in a cache, or written over what is kept."""

    how = "from a copy"

    def __init__(self, index):
        super().__init__(index)
        self.cache = {}

    def __getitem__(self, position):
        if self.how == "kept" and position in self.cache:
            return self.cache[position]
        series, day = self.index[position]
        past = self.series[series, day - PAST : day]
        past = past if self.how == "written over" else past.copy()
        past[torch.rand(PAST).numpy() < 0.3] = 0
        self.cache[position] = super().__getitem__(position) | {"past": past.copy()}
        return self.cache[position]


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ("from a copy", None),
        ("kept", "data/augmented-once"),
        ("written over", "data/sample-depends-on-history"),
    ],
)
def test_augmentation_leaves_the_data_as_they_are_and_is_drawn_anew(forecast, how, rule):
    kind = type("Kind", (Augmented,), {"how": how})
    rules = {*forecast(kind)} & {"data/augmented-once", "data/sample-depends-on-history"}
    assert rules == ({rule} if rule else set())


class OfRecordings(Dataset):
    """Windows of recordings, with a little noise."""

    def __init__(self, recordings, windows):
        self.series, self.windows = [torch.tensor(each) for each in recordings], windows

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        series, start = self.windows[index]
        window = self.series[series][start : start + 8]
        return window + 0.01 * torch.randn(8), index % 4


@pytest.mark.parametrize("held", ["others", "some of them", "the same list"])
def test_recordings_of_the_training_set_that_are_held_out(examine, net, held):
    known = walks()
    windows = [(series, start) for series in range(3) for start in range(0, 112, 4)]
    recordings = {"others": known[3:], "some of them": known[:3], "the same list": known}[held]

    class Data(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(OfRecordings(known if held != "others" else known[:3], windows), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(OfRecordings(recordings, windows), 16)

    found = [each.rule for each in examine("limit_batches", net(), Data()).findings]
    assert ("data/shared-recordings" in found) == (held == "some of them")


class Flat(LightningModule):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(432, 4)

    def training_step(self, batch, batch_idx):
        return functional.cross_entropy(self.head(batch[0].flatten(1)), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize("mixed", [True, False])
def test_image_whose_axes_are_mixed_while_it_is_loaded(examine, kind, mixed):
    class Images(Dataset):
        images = np.random.default_rng(0).normal(size=(64, 12, 12, 3)).astype(np.float32)

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            image = self.images[index]
            if kind == "tensor":
                image = torch.as_tensor(image)
                return image.reshape(3, 12, 12) if mixed else image.permute(2, 0, 1), index % 4
            image = np.ascontiguousarray(image)
            return image.reshape(3, *image.shape[:2]) if mixed else image.transpose(2, 0, 1).copy(), index % 4

    class Data(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Images(), 16, shuffle=True)

        val_dataloader = train_dataloader

    found = [each for each in examine("limit_batches", Flat(), Data()).findings if "reshape" in each.rule]
    assert len(found) == mixed
    if mixed:
        assert "reshape" in found[0].place.source


@pytest.mark.parametrize("copies", [True, False])
def test_cache_that_loading_changes(examine, copies):
    class Cached(Dataset):
        def __init__(self):
            self.cache = {}

        def __len__(self):
            return 64

        def __getitem__(self, index):
            if index not in self.cache:
                self.cache[index] = np.random.default_rng(index).normal(5, 2, 432).astype(np.float32)
            values = self.cache[index].copy() if copies else self.cache[index]
            values -= 5
            return torch.from_numpy(values), index % 4

    class Data(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Cached(), 16, shuffle=True)

        val_dataloader = train_dataloader

    found = [each for each in examine("limit_batches", Flat(), Data()).findings if "history" in each.rule]
    assert len(found) == (not copies)
    if found:
        assert "Cached.cache" in found[0].what


def test_recordings_of_both_splits_are_found_behind_bands_that_training_masks(examine):
    class Listener(LightningModule):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(33, 4)

        def loss(self, batch):
            spectrum = torch.fft.rfft(batch[0]).abs()
            if self.training:
                spectrum[:, :8] = 0
            return functional.cross_entropy(self.head(spectrum), batch[1])

        def training_step(self, batch, batch_idx):
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            self.log("val/loss", self.loss(batch))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    class Recordings(LightningDataModule):
        def part(self, first):
            waves = torch.randn(192, 64, generator=torch.Generator().manual_seed(0))
            return TensorDataset(waves[first:], torch.arange(192)[first:] % 4)

        def train_dataloader(self):
            return DataLoader(self.part(0), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(self.part(160), 16)

    found = [finding.rule for finding in examine("limit_batches", Listener(), Recordings()).findings]
    assert "data/shared-samples" in found


class Shaken:
    """A transform with a random generator of its own, as those of albumentations have."""

    def __init__(self):
        self.random = np.random.default_rng(0)

    def __call__(self, inputs):
        return inputs + torch.from_numpy(self.random.normal(size=8)).float()


def test_transforms_in_a_list_of_a_config_are_no_memory_of_a_dataset():
    def shaken():
        dataset = examples.MappedDataset(lambda index, inputs, label: (dataset.transforms[0](inputs), label))
        dataset.transforms = ListConfig([Shaken()], flags={"allow_objects": True})  # of which copies share the objects
        return dataset

    probe = probes.load("data/sample-depends-on-history")
    item = examples.run(probe, examples.on_datasets(shaken))
    assert (item.findings, item.unjudged.get(probe.id)) == ([], None)
