import json
import os
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from training_checklist.engines.chance import of_one_order
from training_checklist.lab.class_weights import ClassWeights
from training_checklist.probe import CannotJudge
from training_checklist.probes.data import weights_favour_frequent


def whats(verdict):
    assert verdict.error is None, verdict.error
    return [finding.what for finding in verdict.findings]


def rules(verdict):
    assert verdict.error is None, verdict.error
    return [finding.rule for finding in verdict.findings]


@pytest.fixture
def make(data):
    """`make(train=, val=, **options)`: the healthy data, with datasets put through a function; options of loaders."""

    def of(train=lambda dataset: dataset, val=lambda dataset: dataset, shuffle=(True, False), **options):
        class Made(data):
            def train_dataloader(self):
                return DataLoader(train(self.part(1)), 16, shuffle=shuffle[0], **options)

            def val_dataloader(self):
                return DataLoader(val(self.part(2)), 16, shuffle=shuffle[1], **options)

        return Made()

    return of


class Augmented(Dataset):
    """Wraps a dataset and adds noise."""

    def __init__(self, samples, noise=0.3):
        self.samples, self.noise = samples, noise

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        inputs, label = self.samples[index]
        return inputs + self.noise * torch.randn(8), label


class Arrays(Dataset):
    """Keeps NumPy arrays, and makes tensors of a dictionary."""

    def __init__(self, samples):
        self.x, self.y = samples.tensors[0].numpy(), samples.tensors[1].numpy()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return torch.from_numpy(self.x[index]) + 0.1 * torch.randn(8), int(self.y[index])


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        yield from (self.samples[index] for index in torch.randperm(len(self.samples)).tolist())


def changed(inputs=lambda x: x, labels=lambda y: y):
    return lambda dataset: TensorDataset(inputs(dataset.tensors[0]), labels(dataset.tensors[1]))


def put(index, value):
    def into(tensor):
        tensor = tensor.clone()
        tensor[index] = value
        return tensor

    return into


def by_class(dataset):
    order = dataset.tensors[1].argsort()
    return TensorDataset(*(tensor[order] for tensor in dataset.tensors))


def test_default_project_passes_and_its_three_splits_are_looked_at(train):
    folder = train("+debug=limit_batches")
    [item] = json.loads((folder / "debug" / "report.json").read_text())["items"]
    assert item["verdict"] == "passed"
    assert item["findings"] == []
    assert "samples: train 3500, val 500, test 1000" in item["seen"]
    assert "10 classes" in item["seen"]


HEALTHY = {
    "as it is": {},
    "augmented for training": {"train": Augmented},
    "an augmented half and a plain half of one dataset": {
        "train": lambda dataset: Augmented(Subset(dataset, range(80))),
        "val": lambda dataset: Subset(dataset, range(80, 160)),
    },
    "NumPy arrays": {"train": Arrays},
    "an iterable": {"train": Stream, "shuffle": (None, False)},
    "read in order, classes mixed": {"shuffle": (False, False)},
    "validation sorted by class": {"val": by_class},
    "labels mixed for training": {
        "train": changed(labels=lambda y: functional.one_hot(y, 4).float() * 0.9 + 0.025),
    },
    "a short last batch": {"train": lambda dataset: Subset(dataset, range(70))},
    "inputs of 0..1": {"train": changed(lambda x: x.sigmoid()), "val": changed(lambda x: x.sigmoid())},
    "labels to be ignored": {"train": changed(labels=put(slice(0, 9), -100))},
    "some duplicates": {
        "train": changed(lambda x: x.sign(), lambda y: y),
        "val": changed(lambda x: x.sign(), lambda y: y),
    },
}


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_data_are_no_finding(examine, net, make, case):
    assert whats(examine("limit_batches", net(), make(**HEALTHY[case]))) == []


class Drawn(torch.utils.data.Sampler):
    """Draws given indices."""

    def __init__(self, indices):
        self.indices = indices

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)


FAULTS = {
    "value-not-finite": (
        {"train": changed(put((5, 3), torch.nan)), "shuffle": (False, False)},
        "train_dataloader, batch 0, item 5",
        "values of batch[0] are NaN",
    ),
    "value-not-finite in validation": ({"val": changed(put((150, 3), torch.inf))}, "item 150", "are Inf"),
    "label-out-of-range": (
        {"train": changed(labels=lambda y: y + 1)},
        "train_dataloader, batch 0, item",
        "label 4 in train_dataloader, but the network has 4 outputs",
    ),
    "label-out-of-range in validation": ({"val": changed(labels=put(150, 7))}, "val_dataloader, item 150", "label 7"),
    "one-class": ({"train": changed(labels=lambda y: 0 * y)}, "train_dataloader", "all 160 labels"),
    "wrong-loader-shuffled": ({"shuffle": (False, True)}, "sampler SequentialSampler", "and val_dataloader is"),
    "wrong-loader-shuffled, beside training": (
        {"shuffle": (True, True)},
        "val_dataloader",
        "val_dataloader is shuffled",
    ),
    "sorted-by-class": (
        {"train": by_class, "shuffle": (False, False)},
        "sampler SequentialSampler",
        "it is sorted by class",
    ),
    "class-unseen-in-training": (
        {"train": lambda d: Subset(by_class(d), range(120))},
        "val_dataloader",
        "class 3 is in val_dataloader and not in",
    ),
    "splits-scaled-differently": (
        {"val": changed(lambda x: x * 0.3 + 0.5)},
        "val_dataloader",
        "those of val_dataloader 0.50 and 0.30",
    ),
    "splits-scaled-differently, of 40 samples": (
        {"val": lambda dataset: Subset(changed(lambda x: x * 0.3 + 0.5)(dataset), range(40))},
        "val_dataloader",
        "those of val_dataloader",
    ),
    "classes-renamed": ({"val": changed(labels=lambda y: (y + 1) % 4)}, "val_dataloader", "0 looks like 3"),
    "classes-renamed, two of them": (
        {"val": changed(labels=lambda y: torch.tensor([0, 2, 1, 3])[y])},
        "val_dataloader",
        "1 looks like 2",
    ),
    "held-out-labels-unrelated": (
        {"val": changed(labels=lambda y: y[torch.randperm(160)])},
        "val_dataloader",
        "do not fit its inputs",
    ),
    "training-labels-unrelated": (
        {"train": changed(labels=lambda y: y[torch.randperm(160)])},
        "train_dataloader",
        "nothing to do with",
    ),
    "same-input-other-target": (
        {"train": changed(lambda x: x[torch.arange(160) // 8 * 8])},
        "train_dataloader, item 1",
        "20 different inputs, item 1 is item 0",
    ),
    "inputs-look-unlike": ({"val": changed(lambda x: x.roll(1, 1))}, "val_dataloader", "look unlike those of training"),
    "no-batch": (
        {"train": lambda dataset: Subset(dataset, range(10)), "drop_last": True},
        "train_dataloader, Subset",
        "has no batch: 10 samples, batch_size=16, drop_last=True",
    ),
    "never-loaded": (
        {"val": lambda dataset: Subset(dataset, range(110)), "drop_last": True},
        "val_dataloader, Subset",
        "14 of 110 samples of val_dataloader",
    ),
    "held-out-is-random": ({"val": Augmented}, "val_dataloader, item", "differ when they are loaded again"),
    "form-varies between splits": (
        {"val": changed(lambda x: x.double())},
        "val_dataloader, batch 0, batch[0]",
        "batch[0] is 16x8 float64 here",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_and_placed(examine, net, make, fault):
    options, where, what = FAULTS[fault]

    class Casting(net):
        def forward(self, inputs):
            return super().forward(inputs.float())

    verdict = examine("limit_batches", Casting(), make(**options))
    found = [(finding.rule, finding.what, finding.where) for finding in verdict.findings]
    rule = f"data/{fault.partition(',')[0].partition(' ')[0]}"
    assert [each for each in found if each[0] == rule and what in each[1] and where in each[2]], found


@pytest.mark.parametrize(("order", "rule"), [(torch.arange(160), None), (torch.randperm(160), "labels-unrelated")])
def test_labels_of_one_column_are_held_against_the_inputs(examine, net, make, order, rule):
    class OfTable(net):
        def loss(self, batch):
            return super().loss([batch[0], batch[1][:, 0]])

    column = changed(labels=lambda y: y[:, None])
    verdict = examine("limit_batches", OfTable(), make(column, changed(labels=lambda y: y[order, None])))
    assert rules(verdict) == ([] if rule is None else [f"data/held-out-{rule}"])


@pytest.mark.parametrize(
    ("indices", "rule"),
    [
        (WeightedRandomSampler(torch.ones(4), 160), "data/few-distinct-samples"),  # one weight a class
        (Drawn([index % 8 for index in range(160)]), "data/few-distinct-samples"),
        (WeightedRandomSampler(torch.tensor([1.0] * 150 + [15.0] * 10), 160), None),  # a rare class drawn more often
        (WeightedRandomSampler(torch.ones(160), 160), None),
        (SubsetRandomSampler(range(80)), None),
        (Drawn(torch.randperm(160)[:53].repeat_interleave(3).tolist()), None),  # each sample augmented in three ways
    ],
)
def test_sampler_that_draws_few_samples_again_and_again_is_named(examine, net, data, indices, rule):
    class Sampled(data):
        def train_dataloader(self):
            return DataLoader(self.part(1), 16, sampler=indices)

    assert rules(examine("limit_batches", net(), Sampled())) == ([] if rule is None else [rule])


class KeyedByEpoch(torch.utils.data.Dataset):
    """Takes an index, or a key that holds one: of (epoch, index), or as text."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, key):
        return self.dataset[key[1] if isinstance(key, tuple) else int(key)]


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([(3, index) for index in torch.randperm(160).tolist()], "shuffled"),
        ([(3, place) for place in range(160)], None),  # a dataset may shuffle by itself
        ([str(index) for index in torch.randperm(160).tolist()], None),
    ],
)
def test_samples_that_are_drawn_by_other_keys_are_not_said_to_be_read_in_order(examine, net, data, keys, order):
    class Keyed(data):
        def train_dataloader(self):
            return DataLoader(KeyedByEpoch(by_class(self.part(1))), 16, sampler=Drawn(keys))

    verdict = examine("limit_batches", net(), Keyed())
    assert rules(verdict) == []
    assert (f"training set {order}" in verdict.seen) == (order is not None)
    assert "in order" not in verdict.seen


def test_held_out_samples_that_are_drawn_twice_are_named(examine, net, data):
    class Sampled(data):
        def val_dataloader(self):
            return DataLoader(self.part(2), 16, sampler=Drawn([*range(160), 0]))

    [finding] = examine("limit_batches", net(), Sampled()).findings
    assert (finding.rule, finding.place.loader) == ("data/held-out-drawn-twice", "val_dataloader")


class Normalize:
    """A transform as torchvision has it."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, image):
        return (image - torch.tensor(self.mean)) / torch.tensor(self.std)


class Images(Dataset):
    """Bright squares, as (1, 8, 8) of 0..1."""

    def __init__(self, *transforms):
        noise = torch.rand(160, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        self.labels = torch.arange(160) % 4
        self.pixels = (noise * 100).round()
        for label in range(4):
            self.pixels[self.labels == label, :, 2 * label : 2 * label + 2] += 155
        self.transforms = transforms

    def __len__(self):
        return 160

    def __getitem__(self, index):
        image = self.pixels[index] / 255
        for transform in self.transforms:
            image = transform(image)
        return image, self.labels[index]


@pytest.mark.parametrize(
    ("transforms", "rule", "what"),
    [
        ([], None, ""),
        ([Normalize(0.34, 0.3)], None, ""),
        ([Normalize((0.449,), (0.226,))], None, ""),  # ImageNet's
        ([lambda x: (x - 0.34) / 0.3], None, ""),
        ([Normalize(0.34, 0.3), Normalize(0.34, 0.3)], "data/unlike-claim", "normalised twice"),
        ([lambda x: (((x - 0.34) / 0.3) - 0.34) / 0.3], "data/inputs-off-scale", "normalised twice"),
        ([lambda x: x * 255], "data/inputs-off-scale", "never normalised"),
        ([lambda x: x * 255, Normalize(0.34, 0.3)], "data/unlike-claim", "0..255 were normalised like"),
        ([lambda x: x / 255, Normalize(0.34, 0.3)], "data/unlike-claim", "divided by 255 twice"),
        ([lambda x: x * 0], "data/inputs-constant", "all values that enter the network are 0"),
    ],
)
def test_normalisation_of_images_is_told_by_their_range(examine, net, data, transforms, rule, what):
    class Flat(net):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(64, 32)

        def forward(self, inputs):
            return super().forward(inputs.flatten(1))

    class Of(data):
        def train_dataloader(self):
            return DataLoader(Images(*transforms), 16, shuffle=True)

        def val_dataloader(self):
            return []

    found = examine("limit_batches", Flat(), Of()).findings
    told = [each for each in found if each.rule != "data/same-input-other-target"]  # of what is all the same
    assert [each.rule for each in told] == ([] if rule is None else [rule])
    assert all(what in each.what and "first (Linear), train_dataloader" in each.where for each in told)


def test_range_of_images_that_the_step_noises_says_nothing_of_their_normalisation(examine, data):
    class Denoiser(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Conv2d(1, 1, 3, padding=1)

        def training_step(self, batch, batch_idx):
            noise = torch.randn_like(batch[0])
            return functional.mse_loss(self.net(0.3 * batch[0] + 0.2 * noise), noise)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    class Of(data):
        def train_dataloader(self):
            return DataLoader(Images(Normalize(0.34, 0.3)), 16, shuffle=True)

        def val_dataloader(self):
            return []

    verdict = examine("limit_batches", Denoiser(), Of())
    assert "data/unlike-claim" not in rules(verdict)
    assert "noised" in verdict.unjudged["data/unlike-claim"]


class Embedding(LightningModule):
    """Tells sequences of tokens apart; each batch is a dictionary."""

    def __init__(self, tokens=20):
        super().__init__()
        self.table, self.head = nn.Embedding(tokens, 8), nn.Linear(8, 4)

    def training_step(self, batch):
        return functional.cross_entropy(self.head(self.table(batch["tokens"]).mean(1)), batch["label"])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


@pytest.mark.parametrize(("position", "count"), [(slice(0, 160), 160), (159, 1), (None, 0)])
def test_token_without_a_row_is_named_in_a_batch_and_beyond_the_batches(examine, data, position, count):
    class Texts(data):
        def train_dataloader(self):
            labels = torch.arange(160) % 4
            tokens = labels[:, None] * 4 + torch.randint(4, (160, 6), generator=torch.Generator().manual_seed(0))
            if position is not None:
                tokens[position, 2] = 20
            samples = [{"tokens": row, "label": label} for row, label in zip(tokens, labels, strict=True)]
            return DataLoader(samples, 16)

    verdict = examine("limit_batches", Embedding(), Texts())
    assert [finding.rule for finding in verdict.findings] == ["data/token-out-of-range"] * (count > 0)
    assert all("index 20 in batch['tokens']" in finding.what for finding in verdict.findings)
    assert all(finding.place.sample == (position if count == 1 else 0) for finding in verdict.findings)


def test_step_that_takes_parts_out_of_its_batch_is_looked_at_as_any(examine, net, data):
    def named(samples):
        return [{"x": each, "y": label} for each, label in samples]

    class Popping(net):
        def training_step(self, batch, batch_idx):
            labels = batch.pop("y")
            return self.loss((batch.pop("x"), labels))

        def validation_step(self, batch, batch_idx):
            self.loss((batch["x"], batch["y"]))

    class Named(data):
        def train_dataloader(self):
            return DataLoader(named(self.part(1)), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(named(self.part(1)), 16)

    (finding,) = examine("limit_batches", Popping(), Named()).findings
    assert finding.rule == "data/shared-samples"


@dataclass
class Graphs:
    """Graphs of several sizes as one, with classes of nodes."""

    x: torch.Tensor
    y: torch.Tensor


def test_batches_that_are_no_list_of_samples_are_no_finding(examine, net, data):
    class OnGraphs(net):
        def loss(self, batch):
            return functional.cross_entropy(self(batch.x), batch.y)

    class Large(data):
        def graphs(self, seed):
            samples = TensorDataset(*(each.sort()[0] if each.ndim == 1 else each for each in self.part(seed).tensors))
            return DataLoader(
                samples,
                16,
                collate_fn=lambda rows: Graphs(torch.stack([x for x, _ in rows * 2]), torch.arange(32) // 8),
            )

        def train_dataloader(self):
            return self.graphs(1)

        def val_dataloader(self):
            return self.graphs(2)

    assert rules(examine("limit_batches", OnGraphs(), Large())) == []


def test_targets_that_are_masked_or_noise_that_is_to_be_removed_are_no_finding(examine, net, data):
    class Denoising(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 8)

        def loss(self, batch):
            clean, noisy, scores = batch
            known = scores.isfinite()
            missing = functional.mse_loss(scores[known], torch.zeros_like(scores[known]))
            return functional.mse_loss(self(noisy), clean) + 0 * missing

    class Noisy(Dataset):
        def __init__(self, samples):
            self.x, self.scores = samples.tensors[0], put(slice(0, 160, 3), torch.nan)(samples.tensors[0][:, 0])

        def __len__(self):
            return 160

        def __getitem__(self, index):
            return self.x[index], self.x[index] + torch.randn(8), self.scores[index]

    class Pairs(data):
        def part(self, seed):
            return Noisy(super().part(seed))

    assert rules(examine("limit_batches", Denoising(), Pairs())) == []


def test_network_that_fails_on_a_short_last_batch_is_named(examine, net, make):
    class Fixed(net):
        def forward(self, inputs):
            return super().forward(inputs.view(16, -1))

    data = make(lambda dataset: Subset(dataset, range(100)))
    [finding] = examine("limit_batches", Fixed(), data).findings
    assert finding.what.startswith("the last batch of an epoch has 4 samples, not 16, and the step fails: Runtime")
    assert finding.place.loader == "train_dataloader"
    assert "first (Linear)" in finding.where
    whole = make(lambda dataset: Subset(dataset, range(100)), drop_last=True)
    assert whats(examine("limit_batches", Fixed(), whole)) == []


def test_norm_that_takes_no_last_batch_of_one_sample_is_named(examine, net, make):
    class Normed(net):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def forward(self, inputs):
            return super().forward(self.norm(inputs))

    module = Normed()
    [finding] = examine("limit_batches", module, make(lambda dataset: Subset(dataset, range(97)))).findings
    assert finding.what.startswith("the last batch of an epoch has 1 samples, not 16, and the step fails")
    assert "norm (BatchNorm1d)" in finding.where
    assert int(module.norm.num_batches_tracked) == 5


def test_sample_of_another_size_is_named_though_no_batch_can_be_made(examine, net, make):
    class Cut(Augmented):
        def __getitem__(self, index):
            inputs, label = super().__getitem__(index)
            return inputs[:7] if index == 10 else inputs, label

    [finding] = examine("limit_batches", net(), make(Cut, shuffle=(False, False))).findings
    assert finding.what == "item 10 of the training set is 7 and others are 8; 1 of the first 160 are of another size"
    assert (finding.place.loader, finding.place.sample) == ("train_dataloader", 10)


def test_values_that_are_not_finite_are_one_finding_a_loader(examine, net, make):
    verdict = examine("limit_batches", net(), make(train=changed(put(slice(0, 160, 7), torch.nan))))
    assert len([what for what in whats(verdict) if "are NaN" in what]) == 2  # in its batches, in the dataset


def test_dataset_that_only_its_loader_can_read_is_no_finding(examine, net, data):
    class Keyed(Augmented):
        def __getitem__(self, key):
            return super().__getitem__(int(key.removeprefix("key")))

    class Keys(data):
        def train_dataloader(self):
            keys = [f"key{index}" for index in torch.randperm(160).tolist()]
            return DataLoader(Keyed(self.part(1)), 16, sampler=keys)

    verdict = examine("limit_batches", net(), Keys())
    assert verdict.status == "passed", whats(verdict)
    assert "not looked at: samples beyond the batches" in verdict.seen


def test_sharing_is_found_through_subsets_wrappers_and_augmentation(examine, net, data):
    whole = data().part(1)
    indices = torch.randperm(160).tolist()

    def twice(train, val):
        class Twice(data):
            def train_dataloader(self):
                return DataLoader(train, 16, shuffle=True)

            def val_dataloader(self):
                return DataLoader(val, 16)

        [shared] = [text for text in whats(examine("limit_batches", net(), Twice())) if "training set too" in text]
        return shared

    part = twice(Augmented(Subset(whole, indices[:120])), Subset(whole, indices[115:]))
    assert part.startswith("5 of 45 samples of val_dataloader")
    copy = TensorDataset(whole.tensors[0][indices[:100]].clone(), whole.tensors[1][indices[:100]])
    assert twice(Augmented(copy), Arrays(whole)).startswith("100 of 160 samples of val_dataloader")


@pytest.mark.parametrize("numbers", [8, 64])
def test_duplicates_within_training_excuse_no_sharing(examine, net, data, numbers):
    inputs, labels = data().part(1).tensors
    inputs = inputs.repeat(1, numbers // 8) + torch.randn(160, numbers)
    rare = labels > 1
    whole = TensorDataset(torch.cat([inputs, inputs[rare]]), torch.cat([labels, labels[rare]]))
    order = torch.randperm(len(whole)).tolist()

    class Oversampled(data):
        def train_dataloader(self):
            rows = order[60:]
            return DataLoader(TensorDataset(*(part[rows] for part in whole.tensors)), 16, shuffle=True)

        def val_dataloader(self):
            rows = order[:60]
            return DataLoader(TensorDataset(*(part[rows] for part in whole.tensors)), 16)

    class Wide(net):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(numbers, 32)

    found = whats(examine("limit_batches", Wide(), Oversampled()))
    assert [text for text in found if text.endswith("of 60 samples of val_dataloader are in the training set too")]


def test_texts_that_are_drawn_twice_before_the_split_are_shared(examine, net, data):
    """A text of many words is none that comes up twice by chance, unlike a row of a table."""

    class Texts(Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            text, label = self.rows[index]
            return torch.tensor([float(ord(letter)) for letter in text[:8]]) / 100, label

    letters = torch.randint(97, 123, (120, 48), generator=torch.Generator().manual_seed(0)).tolist()
    words = [["".join(map(chr, row[start : start + 6])) for start in range(0, 48, 6)] for row in letters]
    texts = [" ".join(each[: 5 + number % 4]) for number, each in enumerate(words)]
    rows = [(text, number % 4) for number, text in enumerate(texts)]
    order = torch.randperm(180, generator=torch.Generator().manual_seed(0)).tolist()
    drawn = [(rows + rows[:60])[index] for index in order]

    class Drawn(data):
        def train_dataloader(self):
            return DataLoader(Texts(drawn[:120]), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Texts(drawn[120:]), 16)

    known = {text for text, _ in drawn[:120]}
    found = [text for text in whats(examine("limit_batches", net(), Drawn())) if "training set too" in text]
    assert found[0].startswith(f"{sum(text in known for text, _ in drawn[120:])} of 60")


def test_sharing_is_found_in_a_list_of_paths(examine, net, data):
    class Files(Dataset):
        def __init__(self, numbers, samples):
            self.files = [(f"images/{number}.png", number % 4) for number in numbers]
            self.inputs = samples.tensors[0]  # longer than what is listed

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            name, label = self.files[index]
            return self.inputs[int(name[7:-4])] + 0.1 * torch.randn(8), label

    class Listed(data):
        def train_dataloader(self):
            return DataLoader(Files(range(100), self.part(1)), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Files(range(90, 130), self.part(1)), 16)

    found = whats(examine("limit_batches", net(), Listed()))
    assert "10 of 40 samples of val_dataloader are in the training set too" in found


@pytest.mark.parametrize(("shared", "beside"), [(0, False), (12, False), (12, True)])
def test_sharing_is_found_in_lists_of_numbers_that_are_no_indices(examine, net, data, shared, beside):
    """Sessions of items, of which training is given all positions and validation the last one."""
    generator = torch.Generator().manual_seed(0)
    sessions = [torch.randint(1, 90, (9 + number % 4,), generator=generator).tolist() for number in range(160)]

    class Sessions(Dataset):
        def __init__(self, sessions):
            self.sessions = sessions
            self.items = torch.zeros(500, 8) if beside else None

        def __len__(self):
            return len(self.sessions)

        def __getitem__(self, index):
            return torch.tensor(self.sessions[index][:8]) / 90, self.sessions[index][-1] % 4

    class Held(Sessions):
        def __getitem__(self, index):
            return torch.tensor(self.sessions[index][:8]) / 90 + 1e-3, self.sessions[index][-1] % 4

    class Split(data):
        def train_dataloader(self):
            return DataLoader(Sessions(sessions[: 120 + shared]), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Held(sessions[120:]), 16)

    found = "12 of 40 samples of val_dataloader are in the training set too" in whats(
        examine("limit_batches", net(), Split())
    )
    assert found is (shared == 12 and not beside)


@pytest.mark.parametrize("first", [0, 8])
def test_files_of_one_name_in_two_folders_are_two(examine, net, data, tmp_path, first):
    """Names are listed from a folder that the dataset keeps; what counts is what the files hold."""
    numbers = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
    for folder, held in (("train", numbers[:32]), ("val", numbers[32 - first :][:8])):
        (tmp_path / folder).mkdir()
        for index, row in enumerate(held):
            (tmp_path / folder / f"{index}.txt").write_text(" ".join(map(str, row.tolist())))

    class Folder(Dataset):
        def __init__(self, folder):
            self.folder, self.names = str(folder), sorted(os.listdir(folder))

        def __len__(self):
            return len(self.names)

        def __getitem__(self, index):
            with open(os.path.join(self.folder, self.names[index])) as file:
                return torch.tensor(list(map(float, file.read().split()))), index % 4

    class Filed(data):
        def train_dataloader(self):
            return DataLoader(Folder(tmp_path / "train"), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Folder(tmp_path / "val"), 8)

    found = "8 of 8 samples of val_dataloader are in the training set too" in whats(
        examine("limit_batches", net(), Filed())
    )
    assert found is (first == 8)


@pytest.mark.parametrize(("value", "kind"), [(0.0, "exactly 0"), (float("nan"), "nan")])
def test_loss_without_meaning_is_laid_at_the_door_of_the_data_first(examine, net, value, kind):
    class Lost(net):
        def loss(self, batch):
            return super().loss(batch) * value

    [finding] = examine("limit_batches", Lost()).findings
    assert kind in finding.what
    assert "the data show no reason" in finding.why


def test_claim_of_the_config_is_held_against_what_the_network_gets(train, tmp_path):
    with pytest.raises(SystemExit):
        train("+debug=limit_batches", "data.mean=[0.02]", "data.std=[0.03]")
    [report] = tmp_path.rglob("report.json")
    [finding] = json.loads(report.read_text())["items"][0]["findings"]
    assert finding["rule"] == "data/inputs-off-scale"
    assert "mean 0.02 and std 0.03, which the project names, are not those of its pixels" in finding["what"]


def test_batches_are_judged_after_the_transfer_hooks(examine, net, data):
    class Normalising(data):
        def part(self, seed):
            inputs, labels = super().part(seed).tensors
            return TensorDataset(((inputs + 5) * 25).clamp(0, 255).to(torch.uint8), labels)

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return (batch[0].float() / 25 - 5), batch[1]

    class Doing(Normalising):
        def on_after_batch_transfer(self, batch, dataloader_idx):
            return batch[0].float(), batch[1]

    assert whats(examine("limit_batches", net(), Normalising())) == []
    [finding] = examine("limit_batches", net(), Doing()).findings
    assert finding.rule == "data/inputs-off-scale"
    assert "as if they were never normalised" in finding.what


def test_regression_and_samples_of_many_kinds_are_no_finding(examine, net, data):
    class Regressing(net):
        def loss(self, batch):
            return functional.mse_loss(self(batch["x"])[:, 0], batch["y"])

    class Named(data):
        def part(self, seed):
            inputs, _ = super().part(seed).tensors
            return [{"x": x, "y": 20 + x.sum(), "id": i, "name": str(i)} for i, x in enumerate(inputs)]

    assert whats(examine("limit_batches", Regressing(), Named())) == []


def test_workers_are_not_started(examine, net, make):
    seen = []

    class Watching(Augmented):
        def __getitem__(self, index):
            seen.append(torch.utils.data.get_worker_info())
            return super().__getitem__(index)

    assert examine("limit_batches", net(), make(train=Watching, num_workers=2)).status == "passed"
    assert set(seen) == {None}


class Regression(LightningModule):
    """Predicts one number from four."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return functional.mse_loss(self.layer(batch[0]).squeeze(1), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", functional.mse_loss(self.layer(batch[0]).squeeze(1), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


class Minutes(LightningDataModule):
    """Four numbers, and minutes that they tell; `change` makes (train, val) targets of them."""

    def __init__(self, change=lambda inputs, minutes: (minutes[:128], minutes[128:])):
        super().__init__()
        inputs = torch.randn(256, 4, generator=torch.Generator().manual_seed(1))
        minutes = 30 + 9 * inputs.sum(1) + torch.randn(256, generator=torch.Generator().manual_seed(2))
        self.inputs, self.targets = inputs, change(inputs, minutes)

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.inputs[:128], self.targets[0]), 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(TensorDataset(self.inputs[128:], self.targets[1]), 16)


@pytest.mark.parametrize(
    ("change", "rule", "said"),
    [
        (lambda _, y: (y[:128], y[128:]), None, ""),
        (lambda _, y: ((y[:128] - 30) / 18, y[128:]), "data/targets-unlike-training", "mean"),
        (lambda _, y: (y.sort().values[:128], y.sort().values[128:]), "data/targets-unlike-training", "rise"),
        (lambda x, _: (2 * x[:128, 2] + 1, 2 * x[128:, 2] + 1), "data/target-among-inputs", "batch[0][:, 2]"),
    ],
)
def test_targets_of_a_regression_are_held_against_other_splits_and_inputs(examine, change, rule, said):
    found = examine("limit_batches", Regression(), Minutes(change)).findings
    assert [finding.rule for finding in found] == ([] if rule is None else [rule])
    assert all(said in finding.what for finding in found)


class Noised(Dataset):
    """Gives numbers with noise, which is another one each time, and without."""

    def __init__(self, noise):
        self.noise, self.numbers = noise, torch.randn(128, 4, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return self.numbers[index] + self.noise * torch.randn(4), self.numbers[index]


class Denoising(Regression):
    """Takes the noise away; its loss is written out."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def training_step(self, batch, batch_idx):
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def test_step(self, batch, batch_idx):
        self.log("test/loss", self.training_step(batch, batch_idx))


@pytest.mark.parametrize(("noise_of_test", "found"), [(0.0, True), (0.3, False)])
def test_randomness_belongs_to_the_task_unless_another_held_out_split_has_none(examine, noise_of_test, found):
    class Splits(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Noised(0.3), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Noised(0.3), 16)

        def test_dataloader(self):
            return DataLoader(Noised(noise_of_test), 16)

    verdict = examine("limit_batches", Denoising(), Splits())
    places = [each.place.loader for each in verdict.findings if each.rule == "data/held-out-is-random"]
    assert places == (["val_dataloader"] if found else [])


def test_collate_function_that_mixes_samples_is_named_and_one_that_orders_them_is_not(examine):
    def ordered(samples):
        samples = sorted(samples, key=lambda sample: -float(sample[0][0]))  # in another order, as for packing
        return [torch.stack(part) for part in zip(*samples, strict=True)]

    def mixed(samples):
        inputs, targets = ordered(samples)
        return [(inputs - inputs.mean(0)) / (inputs.std(0) + 1e-6), targets] if len(samples) > 1 else [inputs, targets]

    class Collated(Minutes):
        def __init__(self, collate):
            super().__init__()
            self.collate = collate

        def val_dataloader(self):
            return DataLoader(super().val_dataloader().dataset, 16, collate_fn=self.collate)

    assert "data/samples-mixed-by-collate" not in rules(examine("limit_batches", Regression(), Collated(ordered)))
    assert "data/samples-mixed-by-collate" in rules(examine("limit_batches", Regression(), Collated(mixed)))


def unequal(dataset):
    """40, 24, 12 and 4 samples of the four classes."""
    parts = [(dataset.tensors[1] == label).nonzero().flatten()[:count] for label, count in enumerate((40, 24, 12, 4))]
    return Subset(dataset, torch.cat(parts).tolist())


@pytest.mark.parametrize(
    ("weights", "wrong"),
    [
        ([2.0, 1.2, 0.6, 0.2], True),
        ([1.0, 0.9, 0.8, 0.7], True),
        ([0.5, 0.8, 1.7, 5.0], False),
        ([1.0, 1.0, 1.0, 1.0], False),
        ([2.0, 1.0, 1.0, 0.5], False),  # three weights
        ([1.0, 1.5, 0.5, 0.7], False),
        ([0.0, 1.2, 0.6, 0.2], False),  # a class that is left out, and three weights
    ],
)
@pytest.mark.parametrize("criterion", ["cross_entropy", "nll_loss"])
def test_weights_that_favour_frequent_classes_are_warned_of(examine, net, make, weights, wrong, criterion):
    class Weighted(net):
        def loss(self, batch):
            logits = self(batch[0]).log_softmax(1)
            return getattr(functional, criterion)(logits, batch[1], weight=torch.tensor(weights))

    found = examine("limit_batches", Weighted(), make(unequal)).findings
    assert [(each.rule, each.severity) for each in found] == [("data/weights-favour-frequent", "warning")] * wrong
    for each in found:
        assert "class 0, 50% of the labels, has " in each.what
        assert "class 3, 5% of them, has " in each.what
        assert each.place.source.startswith("return getattr(functional, criterion)")


@pytest.mark.parametrize(("weight", "wrong"), [(1 / 19, True), (1 / 3, False), (1.0, False), (3.0, False)])
def test_weight_of_rare_positives_that_is_upside_down_is_warned_of(examine, net, make, weight, wrong):
    class Weighted(net):
        def loss(self, batch):
            target = (batch[1] == 3).float()
            logits = self(batch[0])[:, 0]
            return functional.binary_cross_entropy_with_logits(logits, target, pos_weight=torch.tensor(weight))

    found = rules(examine("limit_batches", Weighted(), make(unequal)))
    assert ("data/positives-weighted-down" in found) == wrong


def test_weights_of_classes_that_are_as_frequent_as_one_another_are_no_finding(examine, net):
    class Weighted(net):
        def loss(self, batch):
            order = self.trainer.train_dataloader.dataset.tensors[1].bincount() * 0.1 + torch.arange(4)
            return functional.cross_entropy(self(batch[0]), batch[1], weight=order)

    assert rules(examine("limit_batches", Weighted())) == []


def test_weights_that_each_batch_makes_anew_are_no_finding(examine, net, make):
    class Weighted(net):
        def loss(self, batch):
            counts = batch[1].bincount(minlength=4) + 1.0
            return functional.cross_entropy(self(batch[0]), batch[1], weight=counts)

    assert rules(examine("limit_batches", Weighted(), make(unequal))) == []


@pytest.mark.parametrize(
    ("classes", "turned", "wrong"), [(12, 0, True), (12, 4, True), (12, 9, False), (40, 36, False)]
)
def test_order_of_many_weights_is_held_against_chance(classes, turned, wrong):
    counts = [1000 - 20 * label for label in range(classes)]
    counts[-1] = 100
    weights = [float(count) for count in counts[:turned][::-1] + counts[turned:]]
    seen, limits = ClassWeights("cross_entropy", weights, counts), weights_favour_frequent.PROBE.limits({})
    found = list(weights_favour_frequent.judge(seen, limits))
    assert len(found) == wrong


def test_weights_of_classes_that_were_not_all_seen_are_not_judged():
    seen = ClassWeights("cross_entropy", [4.0, 3.0, 2.0, 1.0, 0.5], [40, 30, 20, 10, 0])
    with pytest.raises(CannotJudge, match="1 of 5 classes"):
        list(weights_favour_frequent.judge(seen, weights_favour_frequent.PROBE.limits({})))


@pytest.mark.parametrize(("values", "chance"), [([1, 2, 3, 4], 1 / 24), ([1, 2, 4, 3], 4 / 24), ([1, 1, 1, 1], 1.0)])
def test_chance_of_an_order_is_counted(values, chance):
    assert of_one_order([10, 20, 30, 40], values) == chance


class Tables(LightningDataModule):
    """A regression of two tables; tests change the one of the training set or of validation."""

    def __init__(self, training=lambda table: table, validation=lambda table: table):
        super().__init__()
        self.change = {1: training, 2: validation}

    def part(self, seed):
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(300, 6, generator=generator) * torch.tensor([1.0, 0.5, 2.0, 1.0, 1.0, 1.0])
        table[:, 3] = table[:, 3].abs() + 2
        table[:, 4] = (table[:, 4] > 0).float()
        target = table @ torch.tensor([1.0, -1.0, 0.5, 0.3, 1.0, 0.2])
        return DataLoader(TensorDataset(self.change[seed](table), target[:, None]), batch_size=16)

    def train_dataloader(self):
        return self.part(1)

    def val_dataloader(self):
        return self.part(2)


class OfTables(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 1)

    def training_step(self, batch, batch_idx):
        return functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def filled(value, samples=12):
    def change(table):
        table = table.clone()
        table[:samples, 0] = value
        return table

    return change


COLUMNS = {
    "as they are": ({}, None),
    "an outlier again and again": ({"training": filled(-29.0)}, "data/filler-among-values"),
    "a single outlier": ({"training": filled(-29.0, 1)}, None),
    "clipped": ({"training": lambda table: table.clamp(-1.0, 1.0)}, None),
    "columns of validation turned round": (
        {"validation": lambda table: table.flip(1)},
        "data/columns-in-another-order",
    ),
    "two columns exchanged": (
        {"validation": lambda table: table[:, [2, 1, 0, 3, 4, 5]]},
        "data/columns-in-another-order",
    ),
    "one column drifts": ({"validation": lambda table: table + torch.tensor([0, 0, 0, 0.9, 0, 0])}, None),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_a_table(examine, case):
    changes, rule = COLUMNS[case]
    found = {each.rule for each in examine("limit_batches", OfTables(), Tables(**changes)).findings}
    assert found & {"data/filler-among-values", "data/columns-in-another-order"} == ({rule} if rule else set())


def test_second_input_that_is_nothing_but_zeros(examine):
    class Two(OfTables):
        def __init__(self):
            super().__init__()
            self.second = nn.Linear(6, 1)

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return [batch[0], batch[1], batch[0] / torch.inf]

        def training_step(self, batch, batch_idx):
            return functional.mse_loss(self.net(batch[0]) + self.second(batch[2]), batch[1])

    [finding] = [
        each for each in examine("limit_batches", Two(), Tables()).findings if each.rule.startswith("data/inputs")
    ]
    assert (finding.what, finding.place.module) == ("all values that enter it from batch[2] are 0", "second (Linear)")


@pytest.mark.parametrize("masked", [True, False])
def test_targets_that_are_nan_where_none_is_known(examine, net, data, masked):
    class Some(data):
        def part(self, seed):
            inputs, labels = super().part(seed).tensors
            targets = nn.functional.one_hot(labels, 4).float()
            return TensorDataset(inputs, targets.where(torch.rand(targets.shape) > 0.2, torch.nan))

    class Masking(net):
        def loss(self, batch):
            errors = (self(batch[0]) - batch[1]).abs()
            return errors[~errors.isnan()].mean() if masked else errors.mean()

    found = rules(examine("limit_batches", Masking(), Some()))
    assert ("data/value-not-finite" in found) != masked


@pytest.mark.parametrize(("seeded", "apart"), [(True, False), (False, False), (False, True)])
def test_split_that_setup_draws_anew(examine, net, data, seeded, apart):
    class Drawn(data):
        def setup(self, stage):
            whole = self.part(1)
            generator = torch.Generator().manual_seed(0) if seeded else None
            order = torch.randperm(len(whole), generator=generator).tolist()
            self.train, self.held = Subset(whole, order[:-32]), Subset(whole, order[-32:])

        def train_dataloader(self):
            return DataLoader(self.train, 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(self.held, 16)

        def test_dataloader(self):
            return DataLoader(self.part(3) if apart else self.held, 16)

    class Tested(net):
        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

    found = [each for each in examine("limit_batches", Tested(), Drawn()).findings if "anew" in each.rule]
    assert ["setup('test') has made another" in each.what for each in found] == [True] * (not seeded)
    assert [each.severity for each in found] == ["warning" if apart else "failed"] * (not seeded)


def test_augmentation_that_setup_draws_anew_splits_nothing_anew(examine, net, data):
    class Noisy(data):
        def setup(self, stage):
            inputs, labels = (tensor.repeat(2, *[1] * (tensor.ndim - 1)) for tensor in self.part(1).tensors)
            noise = torch.rand(len(inputs), 1).round() * torch.randn(inputs.shape)
            self.train = TensorDataset(inputs + 0.1 * noise, labels, inputs)

        def train_dataloader(self):
            return DataLoader(self.train, 16, shuffle=True)

        def test_dataloader(self):
            return self.val_dataloader()

    class Denoising(net):
        def training_step(self, batch, batch_idx):
            return self.loss(batch[:2])

        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

    report = examine("limit_batches", Denoising(), Noisy())
    assert "data/split-drawn-anew" not in {each.rule for each in report.findings}
    assert "of which setup makes a part anew" in report.unjudged["data/split-drawn-anew"]


@pytest.mark.parametrize(
    ("anew", "reason"), [(True, "makes other samples each time"), (False, "are the same ones in another order")]
)
def test_samples_that_setup_makes_or_shuffles_anew_are_no_split_that_is_drawn_anew(examine, net, data, anew, reason):
    class Generated(data):
        def setup(self, stage):
            inputs, labels = self.part(2).tensors
            inputs, seed = inputs + torch.randn(inputs.shape) if anew else inputs, torch.Generator()
            parts = random_split(TensorDataset(inputs, labels), [0.75, 0.25], seed.manual_seed(0))
            self.parts = [Subset(part, torch.randperm(len(part)).tolist()) for part in parts]

        def train_dataloader(self):
            return DataLoader(self.parts[0], 8)

        def val_dataloader(self):
            return DataLoader(self.parts[1], 8)

        test_dataloader = val_dataloader

    class Tested(net):
        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

    report = examine("limit_batches", Tested(), Generated())
    assert "data/split-drawn-anew" not in {each.rule for each in report.findings}
    assert reason in report.unjudged["data/split-drawn-anew"]


@pytest.mark.parametrize(("whole", "found"), [(True, 1), (False, 0)])
def test_file_that_is_read_as_a_whole_for_each_sample(examine, net, data, tmp_path, whole, found):
    class Stored(Dataset):
        def __init__(self, part):
            inputs, self.labels = (torch.stack(each) for each in zip(*part, strict=True))
            np.save(tmp_path / "inputs.npy", inputs.repeat(16, 1).numpy())

        def __len__(self):
            return len(self.labels)

        def __getitem__(self, index):
            inputs = np.load(tmp_path / "inputs.npy", mmap_mode=None if whole else "r")
            return torch.from_numpy(inputs[index].copy()), self.labels[index]

    class FromFile(data):
        def train_dataloader(self):
            return DataLoader(Stored(self.part(1)), 16, shuffle=True)

    rules = [each.rule for each in examine("limit_batches", net(), FromFile()).findings]
    assert rules.count("data/reads-far-more-than-it-gives") == found


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("normalised", [False, True])
def test_column_of_another_scale_is_warned_of(examine, net, data, scale, normalised):
    class Scaled(data):
        def part(self, seed):
            inputs, labels = super().part(seed).tensors
            return TensorDataset(inputs * torch.tensor([scale, *[1.0] * 7]), labels)

    class Normalising(net):
        def __init__(self):
            super().__init__()
            if normalised:
                self.first = nn.Sequential(nn.BatchNorm1d(8), self.first)

    found = [each for each in examine("limit_batches", Normalising(), Scaled()).findings if "column" in each.rule]
    assert [each.rule for each in found] == ["data/column-off-scale"] * (scale > 1 and not normalised)
    assert all("column 0 of batch[0]" in each.what for each in found)


@pytest.mark.parametrize(("numbers", "found"), [(lambda x: x.square().sum(1, True), []), (lambda x: x, [0])])
def test_number_that_a_network_makes_of_several_columns_is_no_column(examine, net, data, numbers, found):
    """A squared distance, which enters beside what layers have made."""

    class Scaled(data):
        def part(self, seed):
            inputs, labels = super().part(seed).tensors
            return TensorDataset(inputs * torch.tensor([30.0, *[1.0] * 7]), labels)

    class Distances(net):
        def __init__(self):
            super().__init__()
            self.norm, self.embed, self.first = nn.BatchNorm1d(8), nn.Linear(8, 8), nn.LazyLinear(32)

        def forward(self, inputs):
            hidden = self.embed(self.norm(inputs))
            return self.head(torch.relu(self.first(torch.cat([hidden, numbers(inputs)], 1))))

    told = [each.what for each in examine("limit_batches", Distances(), Scaled()).findings if "column" in each.rule]
    assert [int(what.split()[1]) for what in told] == found


@pytest.mark.parametrize("same", ["the loader", "the samples", "nothing"])
def test_samples_of_validation_that_are_tested(examine, net, data, same):
    class Testing(data):
        def setup(self, stage):
            self.held = self.part(2)

        def val_dataloader(self):
            return DataLoader(self.held, 16)

        def test_dataloader(self):
            return DataLoader({"the loader": self.held, "the samples": self.part(2)}.get(same, self.part(3)), 16)

    class Tested(net):
        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

    found = [each.rule for each in examine("limit_batches", Tested(), Testing()).findings]
    assert found == ["data/tested-on-validation"] * (same != "nothing")


@pytest.mark.parametrize(("other", "status"), [(4, "passed"), (3, "warning")])
def test_test_set_beside_a_validation_set_of_its_own_is_only_watched(examine, net, data, other, status):
    class Watching(data):
        def val_dataloader(self):
            return [DataLoader(self.part(seed), 16) for seed in (other, 3)]

        def test_dataloader(self):
            return DataLoader(self.part(3), 16)

    class Tested(net):
        def validation_step(self, batch, batch_idx, dataloader_idx):
            self.log("val/loss", self.loss(batch))

        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

    verdict = examine("limit_batches", Tested(), Watching())
    assert {each.rule for each in verdict.findings} == {"data/tested-on-validation"}
    assert verdict.status == status


@pytest.mark.parametrize(("held", "found"), [(60, []), (0, ["data/shared-samples"])])
def test_one_graph_whose_nodes_are_parted_by_masks_is_no_shared_sample(examine, net, data, held, found):
    """Validated with other nodes, or with all that there are."""

    class Graph(data):
        def setup(self, stage):
            inputs, labels = self.part(2).tensors
            places = torch.arange(len(labels))
            self.graphs = [{"x": inputs, "y": labels, "train_mask": places < 60, "val_mask": places >= held}]

        def train_dataloader(self):
            return DataLoader(self.graphs, collate_fn=lambda rows: rows[0])

        val_dataloader = train_dataloader

    class OfNodes(net):
        def training_step(self, batch, batch_idx, part="train"):
            mask = batch[f"{part}_mask"]
            return functional.cross_entropy(self(batch["x"])[mask], batch["y"][mask])

        def validation_step(self, batch, batch_idx):
            self.log("val/loss", self.training_step(batch, batch_idx, "val"))

    rules = [each.rule for each in examine("limit_batches", OfNodes(), Graph()).findings]
    assert [rule for rule in rules if "shared" in rule] == found


@pytest.mark.parametrize(("beside", "found"), [(True, False), (False, True)])
def test_pairs_of_which_one_half_is_the_same_are_no_shared_samples(examine, net, data, beside, found):
    """Unlabelled pictures of another domain, in training and validation, each beside a labelled one; or alone."""

    class Pairs(Dataset):
        def __init__(self, labelled, target):
            self.target, (self.source, self.labels) = target[:60], labelled.tensors
            if not beside:
                self.source, self.labels = self.target, self.labels[:60]

        def __len__(self):
            return 60

        def __getitem__(self, index):
            return torch.stack([self.source[index], self.target[index]]), self.labels[index]

    class Adapting(data):
        def of(self, part):
            return DataLoader(Pairs(self.part(part), self.part(3).tensors[0]), 16)

        def train_dataloader(self):
            return self.of(1)

        def val_dataloader(self):
            return self.of(2)

    class Adapted(net):
        def forward(self, inputs):
            return super().forward(inputs[:, 0]) + 0.1 * super().forward(inputs[:, 1])

    assert ("data/shared-samples" in rules(examine("limit_batches", Adapted(), Adapting()))) is found


@pytest.mark.parametrize("others", [True, False])
def test_same_rows_of_which_other_entries_are_asked_for_are_no_shared_samples(examine, net, data, others):
    """Ratings of the same users, of which validation asks for those that training has not seen; or for all of them."""

    class Ratings(data):
        def of(self, part):
            inputs, _ = self.part(2).tensors
            seen = torch.arange(8).expand(len(inputs), 8) < 6
            asked = seen if part == "train" else ~seen if others else torch.ones_like(seen)
            return DataLoader(TensorDataset(inputs, inputs * seen, asked), 16)

        def train_dataloader(self):
            return self.of("train")

        def val_dataloader(self):
            return self.of("val")

    class Completing(net):
        def loss(self, batch):
            whole, known, asked = batch
            return (torch.cat([self(known)] * 2, 1) - whole)[asked].square().mean()

        def training_step(self, batch, batch_idx):
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            self.log("val/loss", self.loss(batch))

    assert ("data/shared-samples" in rules(examine("limit_batches", Completing(), Ratings()))) is not others


def test_lists_of_samples_are_datasets(examine, net, data):
    class Listed(data):
        def train_dataloader(self):
            return DataLoader(list(self.part(1)), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(list(self.part(2)), 16)

    verdict = examine("limit_batches", net(), Listed())
    assert (verdict.status, verdict.error) == ("passed", None)


class Batches:
    """Batches that no DataLoader of torch gives."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


def test_samples_are_not_counted_where_no_dataloader_of_torch_gives_them(examine, net, data):
    class Own(data):
        def train_dataloader(self):
            return Batches(super().train_dataloader())

        def val_dataloader(self):
            return Batches(super().val_dataloader())

    assert "samples: not counted, as no batch is from torch's DataLoader" in examine("limit_batches", net(), Own()).seen


class TestSeveralLoaders:
    """Those of training that make one batch together: the one that has the targets is looked at as a single one is."""

    @pytest.fixture
    def semi(self, net):
        """A network that is trained on labelled samples, and to answer alike on unlabelled ones."""

        class Semi(net):
            def training_step(self, batch, batch_idx):
                further = self(batch["further"][0])
                return self.loss(batch["labelled"]) + (further - self(batch["further"][0] + 0.01)).square().mean()

        return Semi()

    @pytest.fixture
    def two(self, data):
        """`two(labelled=, further=, val=)`: the healthy data, with datasets put through functions."""

        def of(labelled=lambda dataset: dataset, further=lambda dataset: dataset, val=lambda dataset: dataset):
            class Two(data):
                def train_dataloader(self):
                    whole = self.part(1)
                    inputs = TensorDataset(further(whole.tensors[0].flip(1)))
                    return {
                        "further": DataLoader(inputs, 32, shuffle=True),
                        "labelled": DataLoader(labelled(whole), 16, shuffle=True),
                    }

                def val_dataloader(self):
                    return DataLoader(val(self.part(2)), 16)

            return Two()

        return of

    def test_healthy_ones_pass(self, examine, semi, two):
        verdict = examine("limit_batches", semi, two())
        assert verdict.status == "passed"
        assert "4 classes" in verdict.seen

    def test_samples_shared_with_validation(self, examine, semi, two, data):
        shared = data().part(1)
        verdict = examine("limit_batches", semi, two(val=lambda _: shared))
        assert "data/shared-samples" in rules(verdict)

    def test_labels_that_are_exchanged_in_validation(self, examine, semi, two):
        def exchanged(dataset):
            return TensorDataset(dataset.tensors[0], (dataset.tensors[1] + 1) % 4)

        verdict = examine("limit_batches", semi, two(val=exchanged))
        assert "data/classes-renamed" in rules(verdict)

    def test_one_loader_that_is_named(self, examine, net, data):
        shared = data().part(1)

        class Named(data):
            def train_dataloader(self):
                return {"labelled": super().train_dataloader()}

            def val_dataloader(self):
                return DataLoader(shared, 16)

        class Unpacking(net):
            def training_step(self, batch, batch_idx):
                return self.loss(batch["labelled"])

        assert "data/shared-samples" in rules(examine("limit_batches", Unpacking(), Named()))

    def test_numbers_that_are_not_finite_in_the_loader_without_targets(self, examine, semi, two):
        verdict = examine("limit_batches", semi, two(further=lambda x: x.where(x < 1, torch.nan)))
        assert "data/value-not-finite" in rules(verdict)


@pytest.mark.parametrize("found", [False, True])
def test_samples_that_testing_only_encodes_may_be_those_of_training(examine, net, data, found):
    class Whole(data):
        def test_dataloader(self):
            return self.train_dataloader()

    class Encoding(net):
        def test_step(self, batch, batch_idx):
            return torch.relu(self.first(batch[0]))

    class Scoring(net):
        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

    verdict = examine("limit_batches", (Scoring if found else Encoding)(), Whole())
    assert ("data/shared-samples" in rules(verdict)) == found
