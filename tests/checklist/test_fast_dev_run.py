import copy

import pytest
import torch
from pytorch_lightning import Trainer
from torch.utils.data import DataLoader
from training_checklist.experiments.fast_dev_run import FastDevRun


def test_every_stage_that_the_project_has_is_run(examine, net, data):
    class Full(net):
        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

        def predict_step(self, batch, batch_idx):
            return self(batch[0])

    class Tested(data):
        def test_dataloader(self):
            return DataLoader(self.part(3), batch_size=16)

        predict_dataloader = test_dataloader

    verdict = examine("fast_dev_run", Full(), Tested())
    assert verdict.status == "passed"
    assert verdict.seen.endswith("ran train, validate, test, predict")


def test_stage_that_the_project_does_not_have_is_no_fault(examine, net):
    verdict = examine("fast_dev_run", net())
    assert verdict.status == "passed"
    assert verdict.seen.endswith("ran train, validate")


def test_stage_after_training_that_raises_is_not_passed_over(examine, net, data):
    class Broken(net):
        def test_step(self, batch, batch_idx):
            raise KeyError("no such metric")

    class Tested(data):
        def test_dataloader(self):
            return DataLoader(self.part(3), batch_size=16)

    with pytest.raises(KeyError, match="no such metric"):
        examine("fast_dev_run", Broken(), Tested())


@pytest.mark.parametrize(("factor", "what"), [(0.0, "exactly 0"), (float("nan"), "is nan"), (float("inf"), "is inf")])
def test_first_loss_that_cannot_be_is_named(examine, net, factor, what):
    class Scaled(net):
        def loss(self, batch):
            return super().loss(batch) * factor

    finding = examine("fast_dev_run", Scaled()).findings[0]
    assert what in finding.what
    assert (finding.place.function, finding.place.batch) == ("Net.training_step", 0)


def test_step_that_returns_nothing_is_named(examine, net):
    class Silent(net):
        def training_step(self, batch, batch_idx):
            self.loss(batch)

    [finding] = examine("fast_dev_run", Silent()).findings
    assert "training_step returned None" in finding.what


def test_metric_that_is_nan_is_named(examine, net):
    class Dividing(net):
        def validation_step(self, batch, batch_idx):
            self.log("val/score", torch.tensor(0.0) / 0)

    [finding] = examine("fast_dev_run", Dividing()).findings
    assert finding.where == "self.log('val/score', ...)"


def test_no_worker_is_started_whatever_the_datamodule_asks_for(examine, net, data):
    class Working(data):
        def train_dataloader(self):
            self.loader = DataLoader(self.part(1), 16, num_workers=2, persistent_workers=True, prefetch_factor=4)
            return self.loader

    working = Working()
    assert examine("fast_dev_run", net(), working).status == "passed"
    assert working.loader.num_workers == 0
    assert DataLoader([1, 2], num_workers=1).num_workers == 1


def test_first_loss_is_that_of_the_step_also_where_batches_are_accumulated(examine, net):
    module = net()
    again = copy.deepcopy(module)
    whole, accumulated = examine("fast_dev_run", module), examine("fast_dev_run", again, accumulate_grad_batches=4)
    assert accumulated.facts["first_loss"] == pytest.approx(whole.facts["first_loss"])


def test_resumed_run_has_its_batch_after_those_behind_it(net, data, tmp_path):
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    first = Trainer(max_epochs=2, enable_checkpointing=False, **options)
    first.fit(net(), datamodule=data())
    first.save_checkpoint(tmp_path / "done.ckpt")
    check = FastDevRun()
    Trainer(fast_dev_run=True, callbacks=[check], **options).fit(
        net(), datamodule=data(), ckpt_path=tmp_path / "done.ckpt", weights_only=True
    )
    assert (check.findings, check.ran) == ([], ["train", "validate"])
