import json
import time

import pandas
import pytest
import torch
from pytorch_lightning import Callback
from torch.utils.data import DataLoader, Dataset
from training_checklist import check
from training_checklist.lab.step_times import StepTimes
from training_checklist.probes.profile.waiting_for_data import PROBE


class Slow(Dataset):
    """Numbers of which each takes a hundredth of a second to load."""

    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.randn(8), index % 4


@pytest.fixture
def busy(net):
    """A network that computes for longer than it could ever wait for numbers in memory."""

    class Busy(net):
        def training_step(self, batch, batch_idx):
            time.sleep(0.02)
            return super().training_step(batch, batch_idx)

    return Busy


@pytest.fixture
def slow(data):
    class SlowData(data):
        def train_dataloader(self):
            return DataLoader(Slow(), 4)

    return SlowData


def test_data_at_hand_pass_and_leave_a_trace(examine, busy, data, tmp_path, capsys):
    verdict = examine("profile", busy(), data(batch_size=8))
    assert verdict.status == "passed"
    trace = json.loads((tmp_path / "debug" / "trace.json").read_text())
    assert any("aten::" in event.get("name", "") for event in trace["traceEvents"])
    assert "trace of 3 steps" in capsys.readouterr().out
    assert verdict.facts["operations"]


def test_epochs_of_one_batch_are_skipped_before_a_step_is_taken(net, data):
    class Rollout(net):
        def training_step(self, batch, batch_idx):
            raise AssertionError

    verdict = check(Rollout(), data(batch_size=1000), items=["profile"])["profile"]
    assert verdict.skipped == "an epoch has one batch, so that no step waits for the next one"


def test_slow_dataset_is_named_with_the_setting_to_try(examine, net, slow):
    verdict = examine("profile", net(), slow(), limit_train_batches=12)
    assert verdict.status == "failed"
    [finding] = verdict.findings
    assert "waiting for data" in finding.what
    assert finding.place.loader == "train_dataloader"
    assert finding.place.note.startswith("Slow, num_workers=0")
    assert finding.fix.overrides == ("data.num_workers=2",)
    assert (finding.place.function, finding.place.file) == (
        "__getitem__",
        "packages/training-checklist/tests/test_profile.py",
    )
    assert "time.sleep" in finding.what


def test_slow_step_is_no_waiting_for_data(examine, net, slow):
    class Large(net):
        def training_step(self, batch, batch_idx):
            time.sleep(0.1)
            return super().training_step(batch, batch_idx)

    assert examine("profile", Large(), slow(), limit_train_batches=12).status == "passed"


def test_short_epoch_is_gone_through_again(examine, busy, data):
    verdict = examine("profile", busy(), data(batch_size=40))
    assert verdict.status == "passed"
    # Ten epochs of four batches, without the three that are traced, the three of the warm-up, and the first of each
    # further epoch.
    assert verdict.facts["steps"] == 40 - 3 - 3 - 9


def test_schedule_made_for_a_short_epoch_does_not_end_it(examine, busy, data):
    class Scheduled(busy):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            steps = self.trainer.estimated_stepping_batches
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    assert examine("profile", Scheduled(), data(batch_size=40)).status == "passed"


def test_run_of_a_few_steps_is_not_judged(examine, net):
    verdict = examine("profile", net(), limit_train_batches=3)
    assert verdict.status == "skipped"
    assert "too few" in verdict.skipped


@pytest.mark.parametrize("hook", ["setup", "configure_optimizers", "on_train_start", "training_step"])
def test_exception_of_the_project_stays_what_it_is(examine, net, hook):
    def fail(self, *_, **__):
        raise KeyError("of the project")

    with pytest.raises(KeyError, match="of the project"):
        examine("profile", type("Failing", (net,), {hook: fail})())


class Numbers(Dataset):
    """Numbers in files of which each look takes a while."""

    def __init__(self, kept):
        self.table = None
        self.kept = kept

    def __len__(self):
        return 160

    def read(self):
        time.sleep(0.002)
        return torch.arange(160.0)

    def one(self, index):
        time.sleep(0.002)
        return float(index)

    def __getitem__(self, index):
        if self.kept:
            return torch.full((8,), self.one(index)), index % 4
        return self.read()[index].expand(8), index % 4


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_made_anew_for_every_sample(examine, net, data, kept):
    class Tables(data):
        def train_dataloader(self):
            return DataLoader(Numbers(kept), 4)

    verdict = examine("profile", net(), Tables(), limit_train_batches=12)
    found = [finding for finding in verdict.findings if finding.rule == "profile/work-repeated"]
    assert bool(found) != kept
    if found:
        assert "Numbers.read" in found[0].what
        assert (found[0].place.file, found[0].place.function) == (
            "packages/training-checklist/tests/test_profile.py",
            "Numbers.__getitem__",
        )


@pytest.mark.parametrize("every", [1, 1000])
def test_hook_that_takes_longer_than_the_step(examine, net, data, every):
    class Table(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx % every == 0:
                time.sleep(0.05)

    class Watched(net):
        def configure_callbacks(self):
            return [Table()]

    verdict = examine("profile", Watched(), data(batch_size=8))
    found = [finding for finding in verdict.findings if finding.rule == "profile/hook-outweighs-step"]
    assert bool(found) == (every == 1)
    for finding in found:
        assert (finding.place.file, finding.place.function) == (
            "packages/training-checklist/tests/test_profile.py",
            "on_train_batch_end",
        )


@pytest.mark.parametrize(("waited", "severity"), [(0.02, "remark"), (0.2, "failed")])
def test_loading_at_the_usual_pace_is_a_remark(waited, severity):
    times = StepTimes(waited, 0.005, 20, DataLoader(range(64), 32))
    assert [finding.severity for finding in PROBE.findings(times, {})] == [severity]


class Searched(Dataset):
    """Numbers that are looked up in a table, or in an array that was made of it."""

    def __init__(self, as_table):
        self.table = pandas.DataFrame({"sample": range(20_000), "number": 0.5})
        self.numbers = None if as_table else self.table["number"].to_numpy()

    def __len__(self):
        return 160

    def __getitem__(self, index):
        if self.numbers is None:
            number = self.table[self.table["sample"] == index]["number"].sum()
        else:
            time.sleep(0.001)
            number = self.numbers[index]
        return torch.full((8,), float(number)), index % 4


@pytest.mark.parametrize("as_table", [False, True])
def test_table_that_is_searched_for_each_sample(examine, net, data, as_table):
    class Data(data):
        def train_dataloader(self):
            return DataLoader(Searched(as_table), 16)

    verdict = examine("profile", net(), Data())
    found = [each for each in verdict.findings if each.rule == "profile/table-read-for-each-sample"]
    assert [each.place.function for each in found] == ["__getitem__"] * as_table
