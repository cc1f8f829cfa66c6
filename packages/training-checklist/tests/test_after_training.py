"""What a script does after training: reading a metric of validation, or the best checkpoint, as most of them do."""

import pytest
from own_project import run_project
from training_checklist.finding import Crashed, Finding, Fix, Place, Verdict
from training_checklist.starting.check import Outcome

TRAIN = """
import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from torch.utils.data import DataLoader


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.layer(batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def teardown(self, stage):
        pass


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    trainer = pl.Trainer(**cfg.trainer, callbacks=[instantiate(part) for part in cfg.callbacks.values()])
    data = DataLoader(torch.randn(64, 2), 4)
    trainer.fit(Lit(), data, data)
    Lit.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    return trainer.callback_metrics["val/loss"].item()


if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults:
  - _self_
  - debug: null

callbacks:
  checkpoint:
    _target_: pytorch_lightning.callbacks.ModelCheckpoint
    dirpath: ${hydra:runtime.output_dir}
    monitor: val/loss
trainer:
  max_epochs: 2
  accelerator: cpu
  logger: false
  enable_progress_bar: false
  enable_model_summary: false
"""
FILES = {"train.py": TRAIN, "conf/train.yaml": CONFIG}


@pytest.mark.parametrize("item", ["overfit", "fast_dev_run", "learning", "anomaly", "gradients"])
def test_script_that_reads_what_training_leaves_is_no_finding(tmp_path, item):
    [verdict] = run_project(tmp_path, item, FILES)
    assert (verdict["verdict"], verdict["findings"]) == ("passed", [])


TESTED = """    if cfg.test:
        tested = trainer.test(Lit(), data)
    return tested[0]["test/loss"]"""


def with_tests(train: str) -> dict[str, str]:
    """A project whose script reads what its tests give, and has a key for them."""
    train = train.replace('    return trainer.callback_metrics["val/loss"].item()', TESTED)
    step = "    def test_step(self, batch, batch_idx):\n        self.log('test/loss', self.layer(batch).mean())\n\n"
    train = train.replace("    def configure_optimizers", f"{step}    def configure_optimizers")
    return {"train.py": train, "conf/train.yaml": CONFIG.replace("trainer:", "test: true\ntrainer:")}


def test_script_that_reads_what_the_tests_give_is_no_finding_where_an_item_leaves_them_out(tmp_path):
    for verdict in run_project(tmp_path, "config,anomaly,gradients", with_tests(TRAIN)):
        assert (verdict["verdict"], verdict["findings"]) == ("passed", [])


def test_exception_after_training_is_told_whether_or_not_the_item_tests(tmp_path):
    wrong = TRAIN.replace("    Lit.load_from", '    trainer.callback_metrics["val/acc"]\n    Lit.load_from')
    [verdict] = run_project(tmp_path, "anomaly", with_tests(wrong))
    [finding] = verdict["findings"]
    assert "KeyError: 'val/acc'" in finding["what"]


def test_config_ends_the_script_where_it_begins_to_train(tmp_path):
    (tmp_path / "data").mkdir()  # what is made of data is not put back
    after = "    open(hydra.utils.to_absolute_path('data/after'), 'w').close()\n    Lit.load_from"
    [verdict] = run_project(tmp_path, "config", {**FILES, "train.py": TRAIN.replace("    Lit.load_from", after)})
    assert (verdict["verdict"], [*(tmp_path / "data").iterdir()]) == ("passed", [])


def test_script_that_reads_what_no_run_leaves_is_a_finding(tmp_path):
    wrong = TRAIN.replace('callback_metrics["val/loss"]', 'callback_metrics["val/acc"]')
    [verdict] = run_project(tmp_path, "anomaly", {**FILES, "train.py": wrong})
    [finding] = verdict["findings"]
    assert "KeyError: 'val/acc'" in finding["what"]


def test_exception_at_the_end_of_training_itself_is_a_finding(tmp_path):
    wrong = TRAIN.replace("        pass", '        raise ValueError("this hook of theirs")')
    [verdict] = run_project(tmp_path, "overfit", {**FILES, "train.py": wrong})
    [finding] = verdict["findings"]
    assert "this hook of theirs" in finding["what"]


@pytest.mark.parametrize("item", ["anomaly", "paths"])
@pytest.mark.parametrize("cadence", ["every_n_epochs: 5", "every_n_train_steps: 20"])
def test_checkpoints_come_as_early_as_the_shortened_run_ends(tmp_path, item, cadence):
    config = CONFIG.replace("max_epochs: 2", "max_epochs: 20").replace("monitor: val/loss", cadence)
    [verdict] = run_project(tmp_path, item, {**FILES, "conf/train.yaml": config})
    assert [finding["what"] for finding in verdict["findings"]] == []


@pytest.mark.parametrize("item", ["anomaly", "device"])
def test_checkpoint_is_kept_where_only_later_epochs_log_the_metric_that_chooses_it(tmp_path, item):
    logged = 'self.log("val/loss", self.layer(batch).square().mean())'
    assert logged in TRAIN
    train = TRAIN.replace(
        logged, f"{logged}\n        if self.current_epoch % 2:\n            self.log('val/second', 1.0)"
    )
    config = CONFIG.replace("monitor: val/loss", "monitor: val/second\n    every_n_epochs: 2")
    assert config != CONFIG
    [verdict] = run_project(tmp_path, item, {**FILES, "train.py": train, "conf/train.yaml": config})
    assert [finding["what"] for finding in verdict["findings"]] == []


BY_HAND = """        self.manual_backward(self.layer(batch).square().mean())
        if batch_idx % 8 == 7:
            self.optimizers().step()"""


@pytest.mark.parametrize("item", ["trace", "anomaly"])
def test_checkpoint_is_kept_where_the_few_batches_of_an_item_make_no_step(tmp_path, item):
    train = TRAIN.replace("        return self.layer(batch).square().mean()", BY_HAND)
    train = train.replace("        self.layer =", "        self.automatic_optimization = False\n        self.layer =")
    [verdict] = run_project(tmp_path, item, {**FILES, "train.py": train})
    assert [finding["what"] for finding in verdict["findings"]] == []


@pytest.mark.parametrize(("judged", "status"), [([], "skipped"), (["gradcheck/wrong-backward"], "passed")])
def test_item_is_judged_by_what_is_left_without_an_exception_that_another_item_tells(judged, status):
    unjudged = {"gradcheck/loss-not-its-slope": "the loss is constant"}
    found = Finding("crash/step-missing", "failed", "no test_step", Place(), "", Fix())
    verdict = Verdict("gradcheck", "?", [found], judged=judged, unjudged=unjudged)
    crash = Crashed("Missing in train.py", "no test_step", (found.rule, found.what), after=True)
    Outcome([verdict], True, [crash]).without(crash)
    assert verdict.status == status
