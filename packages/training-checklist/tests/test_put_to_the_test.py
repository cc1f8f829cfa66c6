"""What is tried on a project: right answers in place of the network's, images turned, tokens in another order, folders
listed backwards."""

import copy
import math
import os
import pathlib
import random
import runpy

import numpy as np
import pytest
import torch
from PIL import Image
from pytorch_lightning import Callback, LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler
from torchmetrics.classification import MulticlassAccuracy
from torchvision.transforms.functional import adjust_hue
from training_checklist.engines.listings import listed_backwards
from training_checklist.engines.salted import salted
from training_checklist.lab.class_weights import ClassWeights
from training_checklist.lab.optimizer_steps import OptimizerSteps
from training_checklist.probes.data import target_stays_behind, weights_of_other_classes


def found(verdict, *topics):
    return {each.rule for each in verdict.findings if each.rule.startswith(topics)}


class Module(LightningModule):
    """A network with a metric of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, inputs):
        return self.head(torch.relu(self.first(inputs)))

    def loss(self, answers, labels):
        return functional.cross_entropy(answers, labels)

    def metrics(self, answers, labels):
        return {"acc": (answers.argmax(1) == labels).float().mean()}

    def training_step(self, batch, batch_idx):
        answers = self(batch[0])
        self.log_dict({f"train/{name}": value for name, value in self.metrics(answers, batch[1]).items()})
        return self.loss(answers, batch[1])

    def validation_step(self, batch, batch_idx):
        answers = self(batch[0])
        self.log_dict({f"val/{name}": value for name, value in self.metrics(answers, batch[1]).items()})

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class OverSamples(Module):
    def metrics(self, answers, labels):
        return {"acc": (answers.argmax(0)[0] == labels).float().mean()}


class OfTargets(Module):
    def metrics(self, answers, labels):
        return {"accuracy": (labels == labels).float().mean()}


class Percent(Module):
    def metrics(self, answers, labels):
        share = (answers.argmax(1) == labels).float().mean()
        return {"acc": 100 * share, "acc_loss": 1 - share, "margin": answers.max(1).values.mean()}


class AtEpochEnd(Module):
    """Its validation is a class of torchmetrics that is asked when the epoch is over."""

    def __init__(self):
        super().__init__()
        self.accuracy = MulticlassAccuracy(4)

    def validation_step(self, batch, batch_idx):
        answers = self(batch[0])
        self.log("val/loss", self.loss(answers, batch[1]))
        self.accuracy.update(self.reported(answers), batch[1])

    def reported(self, answers):
        return answers

    def on_validation_epoch_end(self):
        self.log("val/acc", self.accuracy.compute())
        self.accuracy.reset()


class OthersAtEpochEnd(AtEpochEnd):
    def reported(self, answers):
        return answers.roll(1, 0)


class Entropy(Module):
    """Subtracts more of the score of the right class than it adds."""

    def loss(self, answers, labels):
        return 0.1 * functional.cross_entropy(answers, labels) + answers.gather(1, labels[:, None]).mean()


class Regression(Module):
    """In units of its own, with the error in those of the data."""

    unit = 3.0

    def loss(self, answers, labels):
        return functional.mse_loss(answers[:, 0], labels / 3)

    def metrics(self, answers, labels):
        return {"mae": (self.unit * answers[:, 0] - labels).abs().mean()}


class RegressionInOtherUnits(Regression):
    unit = 1.0


ANSWERS = {
    Module: set(),
    Percent: set(),
    AtEpochEnd: set(),
    Regression: set(),
    OverSamples: {"learning/metric-of-right-answers"},
    OfTargets: {"learning/metric-of-right-answers"},
    OthersAtEpochEnd: {"learning/metric-of-right-answers"},
    RegressionInOtherUnits: {"learning/metric-of-right-answers"},
    Entropy: {"learning/wrong-answers-preferred"},
}


class Numbers(LightningDataModule):
    def __init__(self, of_classes):
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(320, 8, generator=random)
        scores = self.inputs @ torch.randn(8, 4, generator=random)
        self.labels = scores.argmax(1) if of_classes else scores[:, 0] * 5 + 40

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.inputs[:240], self.labels[:240]), 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(TensorDataset(self.inputs[240:], self.labels[240:]), 16)


@pytest.mark.parametrize("module", ANSWERS, ids=lambda module: module.__name__)
def test_right_and_wrong_answers(examine, module):
    rules = {"learning/metric-of-right-answers", "learning/wrong-answers-preferred"}
    verdict = examine("learning", module(), Numbers(not issubclass(module, Regression)))
    assert found(verdict, "learning/") & rules == ANSWERS[module]
    assert "learning/metric-of-right-answers" in verdict.judged


def test_targets_of_one_sample_cannot_be_exchanged(examine):
    class OneHeldOut(Numbers):
        def val_dataloader(self):
            return DataLoader(TensorDataset(self.inputs[240:241], self.labels[240:241]), 16)

    verdict = examine("learning", Module(), OneHeldOut(of_classes=True))
    assert "has one sample" in verdict.unjudged["learning/perfect-for-any-targets"]


class Average(Callback):
    """A moving average of the weights."""

    def __init__(self, *decays):
        self.decays = decays
        self.shadow = {}

    def on_fit_start(self, trainer, pl_module):
        self.shadow = {name: weight.detach().clone() for name, weight in pl_module.named_parameters()}

    def on_train_batch_end(self, trainer, pl_module, *_):
        decay = self.decays[min(trainer.global_step, len(self.decays)) - 1]
        for name, weight in pl_module.named_parameters():
            self.shadow[name].mul_(decay).add_(weight.detach(), alpha=1 - decay)


@pytest.mark.parametrize(
    ("decays", "expected"),
    [
        ([0.9], set()),
        ([0.999], {"learning/average-decay"}),  # of 300 steps
        ([0.01], {"learning/average-decay"}),
        ([(1 + step) / (10 + step) for step in range(400)], set()),
    ],
)
def test_averages_of_weights(examine, decays, expected):
    class Averaged(Module):
        def configure_callbacks(self):
            return [Average(*decays)]

    verdict = examine("learning", Averaged(), Numbers(of_classes=True), max_epochs=20)
    assert found(verdict, "learning/average") == expected
    assert "learning/average-decay" in verdict.judged


def test_target_network_is_slow_on_purpose(examine):
    """As in BYOL and DQN: training asks it, and what it began with is no answer that anybody is given."""

    class Bootstrapped(Module):
        def __init__(self):
            super().__init__()
            self.target = copy.deepcopy(self.first).requires_grad_(False)

        def training_step(self, batch, batch_idx):
            near = functional.mse_loss(self.first(batch[0]), self.target(batch[0]))
            return super().training_step(batch, batch_idx) + near

        def on_train_batch_end(self, *_):
            for own, other in zip(self.target.parameters(), self.first.parameters(), strict=True):
                own.lerp_(other.detach(), 0.001)

    assert not found(examine("learning", Bootstrapped(), Numbers(of_classes=True), max_epochs=20), "learning/average")


def test_momentum_of_another_library(examine):
    class Normed(Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.Sequential(*(nn.BatchNorm1d(8, momentum=0.99) for _ in range(5)))

        def forward(self, inputs):
            return super().forward(self.norms(inputs))

    verdict = examine("learning", Normed(), Numbers(of_classes=True))
    [finding] = [each for each in verdict.findings if each.rule.startswith("learning/statistics")]
    assert (finding.rule, finding.place.module) == (
        "learning/statistics-momentum",
        "norms.0, norms.1, norms.2 and 2 more",
    )


class Shapes(Dataset):
    """Rectangles in noise, and where they are."""

    def __init__(self, start, augment):
        self.start, self.augment = start, augment

    def __len__(self):
        return 96

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(self.start + index)
        mask = torch.zeros(16, 16, dtype=torch.long)
        top, left = torch.randint(0, 9, (2,), generator=random).tolist()
        mask[top : top + 6, left : left + 4] = 1
        image = mask[None] + 0.2 * torch.randn(1, 16, 16, generator=random)
        return self.augment(image, mask)


def plain(image, mask):
    return image, mask


def together(image, mask):
    turns = int(torch.randint(4, ()))
    return image.rot90(turns, (1, 2)) + 0.05 * torch.randn_like(image), mask.rot90(turns, (0, 1))


def image_alone(image, mask):
    return (image.flip(2) if torch.rand(()) < 0.5 else image), mask


def apart(image, mask):
    return [each.flip(-1) if torch.rand(()) < 0.5 else each for each in (image, mask)]


@pytest.mark.parametrize(("augment", "stays"), [(plain, False), (together, False), (image_alone, True), (apart, True)])
def test_targets_of_pixels_follow_their_images(examine, augment, stays):
    class Segments(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Shapes(0, augment), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Shapes(1000, plain), 16)

    class Segmenter(Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)

    verdict = examine("limit_batches", Segmenter(), Segments())
    assert found(verdict, "data/target-stays-behind") == ({"data/target-stays-behind"} if stays else set())
    assert "data/target-stays-behind" in verdict.judged


def test_boxes_that_turn_with_their_image_are_no_finding(examine):
    class Boxes(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(target_stays_behind.Boxed(together=True), 16, shuffle=True)

        val_dataloader = train_dataloader

    verdict = examine("limit_batches", target_stays_behind.Detector(), Boxes())
    assert found(verdict, "data/target-stays-behind") == set()


def by_training_set(train, val):
    return [(each - train.mean(0)) / train.std(0) for each in (train, val)]


def by_all(train, val):
    both = torch.cat([train, val])
    return [(each - both.mean(0)) / both.std(0, correction=0) for each in (train, val)]


def each_by_itself(train, val):
    return [(each - each.mean(0)) / each.std(0) for each in (train, val)]


def range_of_all(train, val):
    both = torch.cat([train, val])
    return [(each - both.amin(0)) / (both.amax(0) - both.amin(0)) for each in (train, val)]


def range_of_training_set(train, val):
    return [(each - train.amin(0)) / (train.amax(0) - train.amin(0)) for each in (train, val)]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (by_training_set, set()),
        (range_of_training_set, set()),
        (by_all, {"data/scaled-by-held-out-samples"}),
        (range_of_all, {"data/scaled-by-held-out-samples"}),
        (each_by_itself, {"data/scaled-by-itself"}),
    ],
)
def test_samples_that_columns_were_scaled_by(examine, scale, expected):
    class Scaled(Numbers):
        def __init__(self):
            super().__init__(of_classes=True)
            skewed = self.inputs.abs() * 3 + 7
            train, val = scale(skewed[:160], skewed[160:])
            self.inputs = torch.cat([train, val])

        def train_dataloader(self):
            return DataLoader(TensorDataset(self.inputs[:160], self.labels[:160]), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(TensorDataset(self.inputs[160:], self.labels[160:]), 16)

    assert found(examine("limit_batches", Module(), Scaled()), "data/scaled-by") == expected


@pytest.mark.parametrize(("drawn", "weighted"), [(True, True), (True, False), (False, True)])
def test_rare_classes_are_made_up_for_once(examine, drawn, weighted):
    random = torch.Generator().manual_seed(0)
    labels = (torch.rand(800, generator=random) < 0.1).long()
    weights = 1 / labels.bincount().float()

    class Uneven(LightningDataModule):
        def loader(self, **options):
            inputs = torch.randn(800, 8, generator=random) + labels[:, None]
            return DataLoader(TensorDataset(inputs, labels), 64, **options)

        def train_dataloader(self):
            return self.loader(**({"sampler": WeightedRandomSampler(weights[labels], 800)} if drawn else {}))

        def val_dataloader(self):
            return self.loader()

    class Weighted(Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 2)

        def loss(self, answers, labels):
            return functional.cross_entropy(answers, labels, weights if weighted else None)

    verdict = examine("limit_batches", Weighted(), Uneven())
    assert bool(found(verdict, "data/balanced-twice")) == (drawn and weighted)


class Tokens(LightningDataModule):
    """Texts with a class that their first word decides; word 1 is one like others."""

    padding = 0

    def texts(self):
        random = torch.Generator().manual_seed(0)
        tokens = torch.randint(1, 40, (128, 16), generator=random)
        lengths = torch.randint(6, 17, (128, 1), generator=random)
        return TensorDataset(torch.where(torch.arange(16) < lengths, tokens, self.padding), tokens[:, 0] % 3)

    def train_dataloader(self):
        return DataLoader(self.texts(), 32)

    val_dataloader = train_dataloader


class Reader(Module):
    places, attends, padding = True, True, 0

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 16)
        self.where = nn.Parameter(torch.randn(16, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens):
        hidden = self.table(tokens) + (self.where if self.places else 0)
        padding = tokens == self.padding
        padding[:, 0] = False
        hidden = self.layer(hidden, src_key_padding_mask=padding) if self.attends else hidden.relu()
        kept = (~padding).unsqueeze(2)
        return self.head((hidden * kept).sum(1) / kept.sum(1))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, set()),
        ({"places": False}, {"network/order-without-effect"}),
        ({"places": False, "attends": False}, set()),
        ({"padding": 1}, {"network/padding-in-the-middle"}),
    ],
)
def test_order_and_padding_of_tokens(examine, options, expected):
    data = type("Data", (Tokens,), {"padding": options.get("padding", 0)})()
    verdict = examine("trace", type("Case", (Reader,), options)(), data)
    assert found(verdict, "network/order-without-effect", "network/padding-in-the-middle") == expected


class Pair(Module):
    def __init__(self, between=nn.Identity, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, width), nn.Dropout(0.1), between(), nn.Linear(width, 4))

    def forward(self, inputs):
        return self.net(inputs)


class TwoReaders(Pair):
    def forward(self, inputs):
        hidden = self.net[0](inputs)
        return self.net[3](hidden) + hidden.square().mean(1, keepdim=True)


class Encoded(Pair):
    """An encoder whose answer is of use without what is put on it for training."""

    def __init__(self):
        super().__init__()
        self.encoder, self.projector = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8, 4)

    def forward(self, inputs):
        return self.projector(self.encoder(inputs))


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Pair(), ["warning"]),
        (Pair(nn.ReLU), []),
        (Pair(width=2), []),
        (TwoReaders(), []),
        (Encoded(), ["remark"]),
    ],
)
def test_linear_layers_with_nothing_between(examine, module, expected):
    verdict = examine("trace", module, Numbers(of_classes=True))
    severities = [each.severity for each in verdict.findings if each.rule == "network/two-linear-layers-are-one"]
    assert severities == expected


@pytest.mark.parametrize("augmented", [True, False])
def test_step_that_augments_its_inputs_is_validated_without(examine, net, augmented):
    class Moved(net):
        def training_step(self, batch, batch_idx):
            moved = torch.randn_like(batch[0]) if augmented else 1
            return super().training_step([batch[0] + moved, batch[1]], batch_idx)

    rules = [finding.rule for finding in examine("trace", Moved()).findings]
    assert ("network/validated-with-another-answer" in rules) != augmented


@pytest.mark.parametrize("divides", [True, False])
def test_loss_is_divided_by_accumulation_once(examine, divides):
    class Divided(Module):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss / self.trainer.accumulate_grad_batches if divides else loss

    verdict = examine("trace", Divided(), Numbers(of_classes=True), accumulate_grad_batches=4)
    assert bool(found(verdict, "network/divided-by-accumulation-twice")) == divides


def test_folders_are_listed_backwards(tmp_path):
    for name in "abc":
        (tmp_path / name).touch()

    def listings():
        with os.scandir(tmp_path) as entries:
            scanned = [entry.name for entry in entries]
        return [
            os.listdir(tmp_path),
            scanned,
            [path.name for path in tmp_path.iterdir()],
            [path.name for path in tmp_path.glob("*")],
            [path.name for path in pathlib.Path(tmp_path).rglob("*")],
        ]

    usual = listings()
    with listed_backwards():
        assert listings() == [each[::-1] for each in usual]
    assert listings() == usual


def test_lines_that_list_folders_unsorted_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["import os", "from pathlib import Path", "one = os.listdir('.')", "two = sorted(os.listdir('.'))"]
    lines += ["three = list(Path('.').glob('*'))", "def never():", "    return os.listdir('.')"]
    lines += [
        "def later():",
        "    found = Path('.').glob('*')",
        "    return [each for each in found]",
        "four = later()",
    ]
    file = tmp_path / "data.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    with listed_backwards() as listed:
        runpy.run_path(str(file))
    assert listed == {(str(file), 3), (str(file), 4), (str(file), 5), (str(file), 10)}
    assert [place.line for place in salted([file], listed)] == [3, 5, 9]
    assert salted([file]) == []


class Pictures(Dataset):
    """Whole numbers that are made brighter, by one way or another."""

    def __init__(self, change):
        self.images = torch.randint(0, 256, (64, 1, 4, 4), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
        self.change = change

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.change(self.images[index]).float().flatten() / 255, index % 4


@pytest.mark.parametrize(
    ("change", "wraps"),
    [
        (lambda image: image, False),
        (lambda image: (image.float() + 60).clamp(0, 255).to(torch.uint8), False),
        (lambda image: image.short() - 30, False),
        (lambda image: image + 60, True),
        (lambda image: (image.float() * 1.4).to(torch.uint8), True),
        (lambda image: (image.long() - 30).byte(), True),
    ],
)
def test_whole_numbers_fit_into_their_type(examine, change, wraps):
    class Brighter(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Pictures(change), 16, shuffle=True)

        val_dataloader = train_dataloader

    class Large(Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(16, 16)

    verdict = examine("limit_batches", Large(), Brighter())
    assert found(verdict, "data/integers-wrap") == ({"data/integers-wrap"} if wraps else set())
    if wraps:
        [place] = [each.place for each in verdict.findings if each.rule == "data/integers-wrap"]
        assert place.file.endswith("test_put_to_the_test.py")


class Arrays(Dataset):
    """The same as NumPy keeps them."""

    def __init__(self, change):
        self.change = change
        self.images = np.random.default_rng(0).integers(0, 256, (64, 16)).astype(np.uint8)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.change(self.images[index]).astype(np.float32) / 255, index % 4


def with_other_hue(image):
    """Torchvision lets hues go round in 8 bits on purpose."""
    return np.asarray(adjust_hue(Image.fromarray(image.reshape(1, 16)).convert("RGB"), 0.3))[0, :, 0]


def brighter_in_place(image):
    image = image.copy()
    image += 60
    return image


@pytest.mark.parametrize(
    ("change", "wraps"),
    [
        (lambda image: image, False),
        (lambda image: np.clip(image + 60.0, 0, 255).astype(np.uint8), False),
        (lambda image: image.astype(np.int16) - 60, False),
        (lambda image: np.asarray(list(image), dtype=np.uint8) // 2, False),
        (lambda image: with_other_hue(image), False),
        (lambda image: image + 60, True),
        (lambda image: (np.pad(image, 1)[1:-1] * 1.4).astype("uint8"), True),
        (lambda image: image.astype(np.int16) ** 1 * 200, True),
        (brighter_in_place, True),
    ],
)
def test_numbers_of_arrays_fit_into_their_type(examine, change, wraps):
    class Brighter(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Arrays(change), 16, shuffle=True)

    class Large(Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(16, 16)

    data = Brighter()
    verdict = examine("limit_batches", Large(), data)
    places = [each.place for each in verdict.findings if each.rule == "data/integers-wrap"]
    assert [place.file.endswith("test_put_to_the_test.py") for place in places] == [True] * wraps
    assert type(data.trainer.train_dataloader.dataset.images) is np.ndarray


def noise_of_torch(index):
    return torch.rand(8, generator=torch.Generator().manual_seed(3))


def noise_of_numpy(index):
    return torch.from_numpy(np.random.default_rng(3).random(8, dtype=np.float32))


def noise_after_seed(index):
    random.seed(3)
    return random.random() * torch.ones(8)


def noise_by_index(index):
    return torch.rand(8, generator=torch.Generator().manual_seed(index))


def noise_of_all(index):
    return torch.rand(8)


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (noise_of_torch, True),
        (noise_of_numpy, True),
        (noise_after_seed, True),
        (noise_by_index, False),
        (noise_of_all, False),
    ],
)
def test_samples_draw_numbers_of_their_own(examine, noise, expected):
    class Noisy(Dataset):
        inputs = Numbers(of_classes=True).inputs

        def __len__(self):
            return 240

        def __getitem__(self, index):
            return self.inputs[index] + noise(index), index % 4

    class Data(Numbers):
        def train_dataloader(self):
            return DataLoader(Noisy(), 16, shuffle=True)

    verdict = examine("limit_batches", Module(), Data(of_classes=True))
    assert bool(found(verdict, "data/one-seed-for-every-sample")) == expected


@pytest.mark.parametrize("anew", [False, True])
def test_batches_draw_numbers_of_their_own(examine, anew):
    kept = np.random.default_rng(3)

    def collate(samples):
        drawn = np.random.default_rng(3) if anew else kept
        inputs, labels = torch.utils.data.default_collate(samples)
        return inputs + torch.as_tensor(drawn.normal(size=inputs.shape).astype("float32")), labels

    class Data(Numbers):
        def train_dataloader(self):
            return DataLoader(super().train_dataloader().dataset, 16, shuffle=True, collate_fn=collate)

    verdict = examine("limit_batches", Module(), Data(of_classes=True))
    assert bool(found(verdict, "data/one-seed-for-every-sample")) == anew


class Rows(Dataset):
    """Reads some rows of an array that it keeps as a whole, and adds noise."""

    def __init__(self, inputs, labels, rows):
        self.inputs, self.labels, self.rows = inputs, labels, np.asarray(rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return self.inputs[row] + 0.1 * torch.randn(8), self.labels[row]


class Listed(Rows):
    """Keeps a list of what it reads."""

    def __init__(self, inputs, labels, rows):
        self.samples, self.rows = list(zip(inputs, labels.tolist(), strict=True)), list(rows)

    def __getitem__(self, index):
        inputs, label = self.samples[self.rows[index]]
        return inputs + 0.1 * torch.randn(8), label


@pytest.mark.parametrize("overlap", [0, 40])
@pytest.mark.parametrize("kind", [Rows, Listed])
def test_rows_that_two_splits_read(examine, kind, overlap):
    class Split(Numbers):
        def train_dataloader(self):
            return DataLoader(kind(self.inputs, self.labels, range(200)), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(kind(self.inputs, self.labels, range(200 - overlap, 300 - overlap)), 16)

    verdict = examine("limit_batches", Module(), Split(of_classes=True))
    whats = [each.what for each in verdict.findings if each.rule == "data/shared-samples"]
    assert whats == ([f"{overlap} of 100 samples of val_dataloader are in the training set too"] if overlap else [])


class Table(LightningDataModule):
    """A category of six and two numbers; the target follows from all of them."""

    renumbered, leaks = False, False

    def part(self, seed, count):
        random = torch.Generator().manual_seed(seed)
        codes = torch.randint(6, (count,), generator=random)
        numbers = torch.randn(count, 2, generator=random) + codes[:, None] % 2
        target = 3.0 * codes - 8 + numbers.sum(1) + torch.randn(count, generator=random)
        if self.leaks:
            numbers = torch.cat([numbers, 0.2 * target[:, None] + 0.01 * torch.randn(count, 1, generator=random)], 1)
        if self.renumbered and seed:
            codes = (codes + 2) % 6
        return TensorDataset(numbers, codes, target)

    def train_dataloader(self):
        return DataLoader(self.part(0, 1200), 32, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.part(1, 600), 32)


class Tabular(LightningModule):
    activation = nn.Identity

    def __init__(self, numbers=2):
        super().__init__()
        self.table, self.head = nn.Embedding(6, 4), nn.Linear(4 + numbers, 1)
        self.last = self.activation()

    def training_step(self, batch, batch_idx):
        numbers, codes, target = batch
        answers = self.last(self.head(torch.cat([numbers, self.table(codes)], 1))).squeeze(1)
        return functional.mse_loss(answers, target)

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, set()),
        ({"renumbered": True}, {"data/codes-of-other-categories"}),
        ({"leaks": True}, {"data/target-among-inputs"}),
    ],
)
def test_tables_with_categories(examine, options, expected):
    verdict = examine("limit_batches", Tabular(3 if options.get("leaks") else 2), type("Case", (Table,), options)())
    rules = ("data/codes-of-other-categories", "data/target-among-inputs", "data/columns")
    assert found(verdict, *rules) == expected
    assert "data/target-among-inputs" in verdict.judged


@pytest.mark.parametrize(("scale", "normalised"), [(30.0, False), (30.0, True), (1.0, False)])
def test_columns_that_are_joined_to_embeddings_are_asked_for_their_scale(examine, scale, normalised):
    class Scaled(Table):
        def part(self, *arguments):
            numbers, codes, target = super().part(*arguments).tensors
            return TensorDataset(numbers * torch.tensor([scale, 1.0]), codes, target)

    module = Tabular()
    module.head = nn.Sequential(nn.BatchNorm1d(6), module.head) if normalised else module.head
    verdict = examine("limit_batches", module, Scaled())
    hits = [each.what for each in verdict.findings if each.rule == "data/column-off-scale"]
    assert [hit.partition(" with mean")[0] for hit in hits] == ["column 0 of batch[0] enters head (Linear)"] * (
        scale > 1 and not normalised
    )


@pytest.mark.parametrize("activation", [nn.Identity, nn.Tanh, nn.ReLU, nn.Sigmoid])
def test_targets_can_be_reached(examine, activation):
    verdict = examine("trace", type("Case", (Tabular,), {"activation": activation})(), Table())
    rule = "network/targets-out-of-reach"
    assert found(verdict, rule) == ({rule} if activation in (nn.ReLU, nn.Sigmoid) else set())


@pytest.mark.parametrize(("dim", "over"), [(1, False), (-1, True)])
def test_softmax_over_the_dimension_of_the_criterion(examine, dim, over):
    class Segmenter(Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)

        def loss(self, answers, labels):
            shares = answers.softmax(dim)[:, 1]
            overlap = 2 * (shares * labels).sum() / (shares + labels).sum()
            return functional.cross_entropy(answers, labels) + 1 - overlap

    class Segments(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Shapes(0, plain), 16)

        val_dataloader = train_dataloader

    verdict = examine("trace", Segmenter(), Segments())
    assert bool(found(verdict, "network/over-another-dimension")) == over


def test_line_that_put_the_network_into_eval_mode_is_named(examine):
    class Preview(Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            pl_module.eval()

    class Dropping(Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, inputs):
            return super().forward(self.drop(inputs))

        def configure_callbacks(self):
            return [Preview()]

    verdict = examine("learning", Dropping(), Numbers(of_classes=True))
    [finding] = [each for each in verdict.findings if each.rule == "learning/eval-mode-in-training"]
    assert finding.place.source == "pl_module.eval()"


def test_layers_of_attention_in_eval_mode_are_seen(examine):
    """In eval mode torch computes such a layer as one, and calls none of its parts."""

    class Preview(Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            pl_module.eval()

    class Attentive(Reader):
        def configure_callbacks(self):
            return [Preview()]

    verdict = examine("learning", Attentive(), Tokens())
    assert "learning/eval-mode-in-training" in found(verdict, "learning/")


@pytest.mark.parametrize(("lr", "lost"), [(0.01, False), (1e-5, True)])
def test_steps_of_16_bit_weights(examine, lr, lost):
    class Slow(Module):
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=lr)

    verdict = examine("gradients", Slow(), Numbers(of_classes=True), precision="bf16-true")
    assert bool(found(verdict, "gradients/lost-in-rounding")) == lost
    whole = examine("gradients", Slow(), Numbers(of_classes=True))
    assert not found(whole, "gradients/lost-in-rounding")


@pytest.mark.parametrize(("betas", "wrong"), [((0.999, 0.9), True), ((0.9, 0.999), False)])
def test_betas_in_the_wrong_order(examine, betas, wrong):
    class Exchanged(Module):
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3, betas=betas)

    verdict = examine("gradients", Exchanged(), Numbers(of_classes=True))
    assert bool(found(verdict, "gradients/betas-exchanged")) == wrong


def test_rates_that_a_warm_up_leads_to_decide_whether_16_bits_are_enough(examine):
    """The first steps are lost; the run as a whole is not."""

    class WarmsUp(Module):
        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 1e-3 + step / 8))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    verdict = examine("gradients", WarmsUp(), Numbers(of_classes=True), precision="bf16-true")
    assert not found(verdict, "gradients/lost-in-rounding")


@pytest.mark.parametrize("cloned", [False, True])
def test_copy_of_the_weights_that_is_none(examine, cloned):
    class Shadow(Callback):
        def on_fit_start(self, trainer, pl_module):
            state = {name: value.detach() for name, value in pl_module.state_dict().items()}
            self.shadow = {name: value.clone() for name, value in state.items()} if cloned else state
            self.trained = list(pl_module.parameters())  # to count their gradients, say

    class Averaged(Module):
        def configure_callbacks(self):
            return [Shadow()]

    verdict = examine("learning", Averaged(), Numbers(of_classes=True))
    told = [each for each in verdict.findings if each.rule == "learning/copy-is-the-weights"]
    assert [each.place.note for each in told] == ["Shadow.shadow"] * (not cloned)


class Kept(Dataset):
    """Rows that are kept, with noise from a generator of each sample's own."""

    def __init__(self, seed, made=False):
        self.seed, self.made = seed, made
        self.rows = torch.randn(160, 8, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        noise = torch.as_tensor(np.random.default_rng(self.seed(index)).normal(size=8).astype("float32"))
        row = noise if self.made else self.rows[index] + 0.1 * noise
        return row, index % 4


class WithEpoch(Kept):
    epoch = 0

    def __init__(self, seed):
        super().__init__(seed)
        self.epoch = 0


@pytest.mark.parametrize(
    ("dataset", "alike"),
    [
        (Kept(lambda index: index), True),
        (Kept(lambda index: np.int64(index)), True),
        (Kept(lambda index: torch.randint(2**31, ()).item()), False),
        (Kept(lambda index: index, made=True), False),
        (WithEpoch(lambda index: index), False),
    ],
)
def test_sample_that_is_augmented_alike_in_each_epoch(examine, dataset, alike):
    class Data(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(dataset, 16, shuffle=True)

    verdict = examine("limit_batches", Module(), Data())
    assert bool(found(verdict, "data/augmented-alike-in-each-epoch")) == alike


@pytest.mark.parametrize(("weights", "wrong"), [([0.53, 0.81, 0.94, 1.59], True), ([1.59, 0.53, 0.94, 0.81], False)])
def test_weights_of_other_classes_are_seen_in_a_part_of_the_labels(weights, wrong):
    evidence = ClassWeights("cross_entropy", weights, [], whole=[21, 192, 60, 85], sampled=True)
    limits = weights_of_other_classes.PROBE.limits({})
    assert len(list(weights_of_other_classes.judge(evidence, limits))) == wrong


class Study:
    def __init__(self):
        self.values = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
        self.patients = [f"p{number // 5}" for number in range(200)]


class Recordings(Dataset):
    def __init__(self, study, indices):
        self.study, self.indices = study, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, item):
        return self.study.values[self.indices[item]], self.indices[item] % 4


@pytest.mark.parametrize("by_person", [False, True])
@pytest.mark.parametrize("subset", [False, True])
def test_persons_in_both_splits(examine, by_person, subset):
    class Data(LightningDataModule):
        def loader(self, held):
            rows = [row for row in range(200) if ((row // 5 if by_person else row) % 5 == 0) == held]
            whole = Recordings(Study(), list(range(200)))
            return DataLoader(Subset(whole, rows) if subset else Recordings(Study(), rows), 16)

        def train_dataloader(self):
            return self.loader(held=False)

        def val_dataloader(self):
            return self.loader(held=True)

    verdict = examine("limit_batches", Module(), Data())
    assert bool(found(verdict, "data/persons-in-both-splits")) != by_person


class ArrowTable:
    """As Arrow has it: `columns` are the columns themselves."""

    def __init__(self, **columns):
        self.column_names, self.columns = list(columns), list(columns.values())

    def __getitem__(self, name):
        if not isinstance(name, str | int):
            raise TypeError("Index must either be string or integer")
        return self.columns[name if isinstance(name, int) else self.column_names.index(name)]


class SparseMatrix:
    """As SciPy has it: with a shape, and without a length."""

    def __init__(self, rows):
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype

    def __len__(self):
        raise TypeError("sparse array length is ambiguous; use getnnz() or shape[0]")

    def __getitem__(self, index):
        return SparseMatrix(self.rows[index][None])


class OfTables(Dataset):
    def __init__(self, seed, patients, rows=100):
        values = torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed))
        self.table, self.matrix, self.indices = ArrowTable(patient=patients), SparseMatrix(values), torch.arange(100)

    def __len__(self):
        return 100

    def __getitem__(self, item):
        return self.matrix[self.indices[item]].rows[0], int(item) % 4


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("rows", [100, 120])
def test_tables_of_arrow_and_sparse_matrices_that_a_dataset_keeps(examine, first, rows):
    class Data(LightningDataModule):
        def loader(self, seed):
            patients = [f"p{first * seed + number // 5}" for number in range(100)]
            return DataLoader(OfTables(seed, patients, rows), 16, shuffle=seed == 0)

        def train_dataloader(self):
            return self.loader(0)

        def val_dataloader(self):
            return self.loader(1)

    verdict = examine("limit_batches", Module(), Data())
    assert verdict.error is None
    assert bool(found(verdict, "data/persons-in-both-splits")) == (first == 0)


@pytest.mark.parametrize("axis", [-1, 1])
def test_weights_of_attention_over_another_axis(examine, axis):
    class Attends(Reader):
        def forward(self, tokens):
            states = self.table(tokens)
            weights = functional.dropout((states @ states.transpose(1, 2)).softmax(axis), 0.1)
            return self.head((weights @ states).mean(1))

    verdict = examine("trace", Attends(), Tokens())
    assert bool(found(verdict, "network/weights-of-another-axis")) == (axis == 1)


@pytest.mark.parametrize("back", [True, False])
def test_callback_that_leaves_eval_mode_every_so_many_steps(examine, back):
    class Dropping(Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.teacher = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
            self.teacher.requires_grad_(False)

        def configure_callbacks(self):
            return [PutBack() if back else Sample()]

        def configure_optimizers(self):
            return torch.optim.Adam([p for p in self.parameters() if p.requires_grad], lr=0.01)

    verdict = examine("learning", Dropping(), Numbers(of_classes=True))
    told = [each.place.source for each in verdict.findings if each.rule == "learning/eval-without-train"]
    assert told == ["pl_module.eval()"] * (not back)


class Sample(Callback):
    def on_train_batch_end(self, trainer, pl_module, *_):
        if trainer.global_step % 1000 == 999:
            self.decode(pl_module)

    def decode(self, pl_module):
        pl_module.teacher.eval()
        pl_module.eval()


class PutBack(Sample):
    def decode(self, pl_module):
        pl_module.eval()
        pl_module.train()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("column", ["row", "amount", "none"])
def test_number_of_the_row_among_the_inputs(examine, column, scaled):
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 8, generator=draw)
    if column != "none":
        numbers = torch.randperm(400, generator=draw)[:300] if column == "row" else torch.randint(0, 400, (300,))
        inputs[:, 3] = (numbers - 200.0) / (115 if scaled else 1)

    class Table(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(TensorDataset(inputs, torch.arange(300) % 4), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(TensorDataset(torch.randn(60, 8, generator=draw), torch.arange(60) % 4), 16)

    verdict = examine("limit_batches", Module(), Table())
    assert bool(found(verdict, "data/row-number-among-inputs")) == (column == "row")


@pytest.mark.parametrize(("first", "coarse"), [(0, False), (20_000_000, True)])
def test_identifiers_as_float32(examine, first, coarse):
    class Identified(Module):
        def training_step(self, batch, batch_idx):
            return self.loss(self(batch["x"]), batch["y"])

    class Table(LightningDataModule):
        def train_dataloader(self):
            rows = [{"x": torch.randn(8), "y": i % 4, "id": torch.tensor(float(first + i))} for i in range(160)]
            return DataLoader(rows, 16, shuffle=True)

    verdict = examine("limit_batches", Identified(), Table())
    assert bool(found(verdict, "data/numbers-too-large-for-type")) == coarse


@pytest.mark.parametrize(("interval", "wrong"), [("epoch", True), ("step", False)])
def test_decay_over_steps_that_is_stepped_by_epochs(examine, interval, wrong):
    """Its warm-up is short, so that the rate comes to its peak either way, and by epochs it stays there."""

    class Decays(Module):
        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            steps = self.trainer.estimated_stepping_batches

            def factor(step):
                return (step + 1) / 2 if step < 2 else 0.5 * (1 + math.cos(math.pi * min(step / steps, 1)))

            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": interval}}

    verdict = examine("learning", Decays(), Numbers(of_classes=True), max_epochs=8)
    assert bool(found(verdict, "schedule/counted-in-steps")) == wrong


def test_looking_for_rounding_leaves_the_weights_of_32_bits_as_they_are():
    weights = [nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4, dtype=torch.bfloat16))]
    optimizer = torch.optim.SGD(weights, lr=0.5)
    steps = OptimizerSteps(optimizer, [0.5])
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert steps.lost_of_all
    assert weights[0].tolist() == weights[1].tolist() == [0.5] * 4


class Restored(Dataset):
    """Images with shades at random places, and the same with noise; some are turned upside down."""

    def __init__(self, turned):
        self.turned = turned
        random = torch.Generator().manual_seed(0)
        rough = torch.rand(120, 1, 4, 4, generator=random)
        self.clean = functional.interpolate(rough, 12, mode="bilinear")
        self.noisy = self.clean + 0.1 * torch.randn(self.clean.shape, generator=random)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, index):
        clean, noisy = self.clean[index], self.noisy[index]
        if torch.rand(()) < 0.5 and self.turned != "none":
            noisy = noisy.flip(-2)
            clean = clean.flip(-2) if self.turned == "both" else clean
        return noisy, clean


class Restoring(LightningModule):
    def __init__(self, by_hand):
        super().__init__()
        self.by_hand, self.net = by_hand, nn.Conv2d(1, 1, 3, padding=1)

    def training_step(self, batch, batch_idx):
        noisy, clean = batch
        answers = noisy + self.net(noisy)
        if self.by_hand:  # Charbonnier's
            return ((answers - clean).square() + 1e-6).sqrt().mean()
        return functional.l1_loss(answers, clean)

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", functional.l1_loss(batch[0] + self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("turned", ["none", "both", "inputs"])
def test_image_that_is_turned_without_its_target(examine, turned, by_hand):
    class Images(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Restored(turned), 16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(Restored("none"), 16)

    rules = found(examine("limit_batches", Restoring(by_hand), Images()), "data/target-stays-behind")
    assert bool(rules) == (turned == "inputs")


class Basket(LightningModule):
    """Scores things by what was bought before."""

    def __init__(self):
        super().__init__()
        self.things = nn.Embedding(200, 8)

    def training_step(self, batch, batch_idx):
        before, bought, other = (self.things(part) for part in batch)
        taste = before.mean(1)
        return -functional.logsigmoid((taste * (bought - other)).sum(1)).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


@pytest.mark.parametrize("last", ["before", "bought"])
def test_thing_that_stands_in_its_own_history(examine, last):
    random = torch.Generator().manual_seed(0)
    before = torch.randint(1, 200, (160, 9), generator=random)
    parts = before[:, 1:] if last == "bought" else before[:, :-1], before[:, -1], torch.randint(1, 200, (160,))

    class Baskets(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(TensorDataset(*parts), 16, shuffle=True)

    rules = found(examine("limit_batches", Basket(), Baskets()), "data/part-of-target")
    assert bool(rules) == (last == "bought")
