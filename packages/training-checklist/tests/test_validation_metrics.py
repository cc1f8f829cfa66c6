"""Metrics of validation: of batches, of which the mean is kept, and of answers that have no rank."""

import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics import functional as measures
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy, MulticlassF1Score
from torchmetrics.functional.classification import multiclass_f1_score


class Data(LightningDataModule):
    def __init__(self, together=True):
        super().__init__()
        inputs = torch.randn(160, 8, generator=torch.Generator().manual_seed(0))
        self.dataset = TensorDataset(inputs, inputs[:, :4].argmax(1))
        # In another order, the classes of batches are as unlike one another as they can be.
        self.held = TensorDataset(*(part[self.dataset.tensors[1].argsort()] for part in self.dataset.tensors))

    def train_dataloader(self):
        return DataLoader(self.dataset, 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.held, 32)


class Classifier(LightningModule):
    """Logs what `log_answers` does with the answers to a batch."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 4)
        self.f1, self.accuracy = MulticlassF1Score(4), MulticlassAccuracy(4, average="micro")
        self.all = MetricCollection({"val/f1": MulticlassF1Score(4)})

    def training_step(self, batch, batch_idx):
        return functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log_answers(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


class MetricOfBatch(Classifier):
    def log_answers(self, logits, labels):
        self.log("val/f1", self.f1(logits, labels))


class CollectionOfBatch(Classifier):
    def log_answers(self, logits, labels):
        self.log_dict(self.all(logits, labels))


class ImportedFunction(Classifier):
    def log_answers(self, logits, labels):
        self.log("val/f1", multiclass_f1_score(logits, labels, num_classes=4).item())


class FunctionOfPackage(Classifier):
    def log_answers(self, logits, labels):
        self.log("val/f1", measures.f1_score(logits, labels, "multiclass", num_classes=4, average="macro"))


class Perplexity(Classifier):
    def log_answers(self, logits, labels):
        self.log("val/perplexity", functional.cross_entropy(logits, labels).exp())


class RootOfMeanSquares(Classifier):
    def log_answers(self, logits, labels):
        self.log("val/rmse", torch.sqrt(functional.mse_loss(logits[:, 0], labels.float())))


class MetricItself(Classifier):
    def log_answers(self, logits, labels):
        self.f1.update(logits, labels)
        self.log("val/f1", self.f1)


class MetricOfEpoch(Classifier):
    def log_answers(self, logits, labels):
        self.f1.update(logits, labels)

    def on_validation_epoch_end(self):
        self.log("val/f1", self.f1.compute())
        self.f1.reset()


class ShareOfBatch(Classifier):
    def log_answers(self, logits, labels):
        self.log("val/accuracy", self.accuracy(logits, labels))
        self.log("val/loss", functional.cross_entropy(logits, labels))


FAULTY = (MetricOfBatch, CollectionOfBatch, ImportedFunction, FunctionOfPackage, Perplexity, RootOfMeanSquares)


@pytest.mark.parametrize("kind", [*FAULTY, MetricItself, MetricOfEpoch, ShareOfBatch])
def test_mean_of_what_batches_have(examine, kind):
    verdict = examine("learning", kind(), Data())
    found = [finding for finding in verdict.findings if finding.rule == "learning/mean-of-batches"]
    assert bool(found) == (kind in FAULTY)
    for finding in found:
        assert "of each of 5 batches" in finding.what
        assert finding.place.function == f"{kind.__name__}.log_answers"
    assert multiclass_f1_score.__module__ == "torchmetrics.functional.classification.f_beta"


@pytest.mark.parametrize("hard", [True, False])
def test_area_under_a_curve_of_answers(examine, hard):
    class Ranked(Classifier):
        def __init__(self):
            super().__init__()
            self.auroc = BinaryAUROC()

        def log_answers(self, logits, labels):
            scores = logits[:, 0].sigmoid()
            self.auroc.update((scores > 0.5).float() if hard else scores, (labels == 0).int())
            self.log("val/auroc", self.auroc)

    found = [finding.rule for finding in examine("learning", Ranked(), Data()).findings]
    assert ("learning/scores-without-rank" in found) == hard


@pytest.mark.parametrize("bounded", [True, False])
def test_scores_that_torchmetrics_squashes_in_some_batches(examine, bounded):
    class Errors(Classifier):
        def __init__(self):
            super().__init__()
            self.auroc = BinaryAUROC()

        def log_answers(self, logits, labels):
            scores = self.trainer.fit_loop.epoch_loop.val_loop.batch_progress.current.ready * logits.softmax(1)[:, 0]
            self.auroc.update(scores / (1 + scores) if bounded else scores, (labels == 0).int())
            self.log("val/auroc", self.auroc)

    found = [finding.rule for finding in examine("learning", Errors(), Data()).findings]
    assert ("learning/scores-of-two-scales" in found) != bounded


def test_values_that_are_the_same_in_one_batch_are_told_apart_by_the_others(examine):
    class Both(Classifier):
        def log_answers(self, logits, labels):
            self.log("val/accuracy", self.accuracy(logits, labels))
            self.log("val/f1", self.f1(logits, labels))
            self.f1(labels, labels), self.accuracy(labels, labels)  # both are 1

    found = [each for each in examine("learning", Both(), Data()).findings if each.rule == "learning/mean-of-batches"]
    assert [each.what.split()[0] for each in found] == ["val/f1"]


class YesOrNo(Classifier):
    """Predicts whether the first number is positive, and logs how often it is right."""

    line, squash = 0.0, staticmethod(lambda logits: logits)

    def training_step(self, batch, batch_idx):
        return functional.binary_cross_entropy_with_logits(self.net(batch[0])[:, 0], (batch[0][:, 0] > 0).float())

    def validation_step(self, batch, batch_idx):
        logits, labels = self.net(batch[0])[:, 0], (batch[0][:, 0] > 0).float()
        self.log("val/loss", functional.binary_cross_entropy_with_logits(logits, labels))
        answers = self.squash(logits)
        self.log("val/acc", ((answers > self.line).float() == labels).float().mean())
        self.log("val/sureness", answers.abs().mean())


class Squashed(YesOrNo):
    line, squash = 0.5, torch.sigmoid


class OwnThreshold(Squashed):
    line = 0.3  # positives are rare, and missing one is worse


class LogitsAgainstAHalf(YesOrNo):
    line = 0.5


class SquashedTwice(LogitsAgainstAHalf):
    """Gives a sigmoid's output to a loss that has one of its own: to the metric it is what it asks for."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(self.net, nn.Sigmoid())


@pytest.mark.parametrize("module", [YesOrNo, Squashed, SquashedTwice, OwnThreshold, LogitsAgainstAHalf])
def test_threshold_of_another_scale(examine, module):
    found = [finding.rule for finding in examine("learning", module(), Data()).findings]
    assert ("learning/threshold-of-other-scale" in found) == (module is LogitsAgainstAHalf)


class Recurrent(Classifier):
    """Reads the numbers one by one, with a state that begins with zeros or goes on from the last batch."""

    def __init__(self, carried):
        super().__init__()
        self.carried, self.state = carried, None
        self.rnn, self.head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 4)

    def answer(self, inputs):
        known = self.state is not None and self.state.shape[1] == len(inputs)
        answers, state = self.rnn(inputs[..., None], self.state if known else None)
        self.state = state.detach() if self.carried else None
        return self.head(answers[:, -1])

    def training_step(self, batch, batch_idx):
        return functional.cross_entropy(self.answer(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", functional.cross_entropy(self.answer(batch[0]), batch[1]))


@pytest.mark.parametrize("carried", [False, True])
def test_state_of_other_samples(examine, carried):
    found = [finding.rule for finding in examine("learning", Recurrent(carried), Data()).findings]
    assert ("learning/answers-depend-on-last-batch" in found) == carried
