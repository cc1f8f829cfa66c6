"""One cause is told once, with its witnesses."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from training_checklist import check
from training_checklist.finding import FAILED, WARNING, Finding, Place, Verdict
from training_checklist.instruments import Small
from training_checklist.reporting.conclusions import conclusions


def finding(rule, severity=FAILED, symptom=False, **place):
    return Finding(rule, severity, f"seen by {rule}", Place(**place), "", symptom=symptom)


def test_findings_at_one_place_are_one_thing():
    rate = {"key": "optimizer.lr", "value": "10"}
    verdicts = [
        Verdict("gradients", "", [finding("gradients/update-too-large", symptom=True)]),
        Verdict("overfit", "", [finding("overfit/rate-too-high", **rate)]),
        Verdict("learning", "", [finding("learning/rate-too-high", **rate)]),
    ]
    [only] = conclusions(verdicts)
    assert (only.item, only.finding.rule) == ("overfit", "overfit/rate-too-high")
    assert [item for item, _ in only.witnesses] == ["learning", "gradients"]


def test_line_that_draws_without_a_seed_is_not_why_its_gradient_is_infinite():
    seedless = finding("reproducibility/steps-differ", file="losses.py", line=7)
    infinite = finding("numerics/gradients-not-finite", file="losses.py", line=7)
    found = conclusions([Verdict("overflow", "", [infinite]), Verdict("reproducibility", "", [seedless])])
    assert [each.finding.rule for each in found] == ["numerics/gradients-not-finite", "reproducibility/steps-differ"]


@pytest.mark.parametrize(("items", "told"), [(["distributed"], 2), (["distributed", "trace"], 1)])
def test_what_happens_between_processes_alone_explains_nothing_that_one_computes(items, told):
    crash = finding("crash/unknown", file="train.py", line=7)
    symptom = Verdict("overfit", "", [finding("overfit/not-memorised", symptom=True)])
    assert len(conclusions([symptom, *(Verdict(item, "", [crash]) for item in items)])) == told


def test_weight_by_which_runs_without_a_seed_part_is_not_why_it_has_no_gradient():
    seedless = finding("reproducibility/no-seed", parameter="net.weight")
    unused = finding("gradients/unused", parameter="net.weight")
    found = conclusions([Verdict("gradients", "", [unused]), Verdict("reproducibility", "", [seedless])])
    assert [each.finding.rule for each in found] == ["gradients/unused", "reproducibility/no-seed"]


def test_two_causes_stay_two_and_a_symptom_that_fits_neither_stands_for_itself():
    verdicts = [
        Verdict("trace", "", [finding("network/unregistered", module="net.extra")]),
        Verdict("config", "", [finding("config/unread", key="optimizer.momentum")]),
        Verdict("overfit", "", [finding("overfit/not-memorised", symptom=True)]),
        Verdict("gradients", "", [finding("gradients/none", symptom=True, module="net.extra")]),
    ]
    found = conclusions(verdicts)
    assert [each.finding.rule for each in found] == ["network/unregistered", "config/unread", "overfit/not-memorised"]
    assert [item for item, _ in found[0].witnesses] == ["gradients"]


def test_same_crash_of_several_items_is_one_thing_and_so_is_a_warning():
    crash = finding("crash/matrix-product", file="net.py", line=7)
    verdicts = [Verdict(item, "", [crash, finding("a/b", WARNING)]) for item in ("trace", "device")]
    only, doubt = conclusions(verdicts)
    assert (doubt.severity, len(doubt.witnesses)) == (WARNING, 1)
    assert str(only).startswith("seen by crash/matrix-product (net.py:7): trace [crash/matrix-product]")


def test_what_one_rule_finds_twice_at_one_place_has_no_other_witness():
    parts = [
        finding("data/shared-parts", file="data.py", line=7, loader=f"{each}_dataloader") for each in ("val", "test")
    ]
    [only] = conclusions([Verdict("limit_batches", "", parts)])
    assert len(only.witnesses) == 1
    assert str(only).endswith("limit_batches [data/shared-parts]")


def test_warnings_alone_make_conclusions_and_stand_below_failures():
    doubt, cause = finding("a/doubt", WARNING, key="optimizer.lr"), finding("b/cause", module="net.extra")
    follows = finding("c/follows", WARNING, symptom=True)
    assert [str(each) for each in conclusions([Verdict("config", "", [doubt, follows])])] == [
        "warning: seen by a/doubt (optimizer.lr): config [a/doubt]; seen by config [c/follows], too"
    ]
    found = conclusions([Verdict("config", "", [doubt]), Verdict("trace", "", [cause])])
    assert [each.finding.rule for each in found] == ["b/cause", "a/doubt"]


def test_what_only_may_be_wrong_explains_no_failure():
    verdicts = [
        Verdict("config", "", [finding("a/doubt", WARNING, key="optimizer.lr")]),
        Verdict("overfit", "", [finding("overfit/not-memorised", symptom=True)]),
    ]
    assert [each.finding.rule for each in conclusions(verdicts)] == ["overfit/not-memorised", "a/doubt"]


@pytest.mark.parametrize(
    "rule", ["paths/outside-run-directory", "reproducibility/pickled-objects", "data/tested-on-validation"]
)
def test_where_files_lie_and_what_they_hold_explains_nothing_that_is_computed(rule):
    verdicts = [
        Verdict("paths", "", [finding(rule, key="logger.save_dir")]),
        Verdict("gradients", "", [finding("gradients/eps-exceeds-gradients", WARNING, symptom=True)]),
    ]
    assert [each.witnesses for each in conclusions(verdicts)] == [[], []]


def test_nan_is_told_once_and_begins_with_the_operation_that_makes_it():
    class Unguarded(Small):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx) + (batch[0] * 0).log().mul(0).sum()
            self.log("train/loss", loss)
            return loss

    items = ["fast_dev_run", "limit_batches", "anomaly", "overflow", "overfit"]
    data = DataLoader(TensorDataset(torch.randn(64, 8), torch.arange(64) % 4), 16)
    [only] = conclusions(check(Unguarded(), items=items, loaders={"train_dataloaders": data}).verdicts)
    assert (only.item, only.finding.rule) == ("overflow", "numerics/forward-not-finite")
    assert {item for item, _ in only.witnesses} == {*items} - {"overflow"}


def test_symptom_that_is_met_before_its_cause_stands_below_it():
    """Items of one process crash where a ddp project needs several; what is wrong with it comes from another item."""
    crash = finding("crash/unknown", symptom=True, file="train.py", line=7)
    other = finding("crash/collective", symptom=True, file="train.py", line=9)
    causes = [finding("distributed/rank-hangs", rank="0"), finding("distributed/same-data", loader="train_dataloader")]
    verdicts = [
        Verdict("trace", "", [crash]),
        Verdict("overfit", "", [crash, other]),
        Verdict("distributed", "", causes),
    ]
    found = conclusions(verdicts)
    assert [each.finding.rule for each in found][:2] == ["distributed/rank-hangs", "distributed/same-data"]
    assert [each.item for each in found[2:]] == ["trace", "overfit"]


def test_parts_that_one_line_cuts_off_are_one_thing_and_it_begins_with_the_line():
    parts = [
        finding("network/without-gradient", module=f"net.stage{n}", parameter=f"net.stage{n}.weight, net.stage{n}.bias")
        for n in (1, 2, 3)
    ]
    cut = finding(
        "gradients/cut-off",
        module="net (CNN)",
        parameter="net.stage1.weight, net.stage1.bias and 4 more",
        file="cnn.py",
        line=32,
    )
    [only] = conclusions([Verdict("trace", "", parts), Verdict("gradients", "", [cut])])
    assert (only.finding, [each for _, each in only.witnesses]) == (cut, parts)
