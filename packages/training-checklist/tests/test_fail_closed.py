"""Whatever a project raises, and wherever, is its own finding: never replaced by ours, never passed over.

Every item x an exception in every place of the project's code.
"""

from contextlib import suppress

import pytest
import torch
from training_checklist import check
from training_checklist.lightning import isolate_rng
from training_checklist.python_call import alone

LOADERS = ("train_dataloader", "val_dataloader")
OF_DATA = ("prepare_data", "setup", *LOADERS)
HOOKS = (
    "on_fit_start",
    "on_train_start",
    "on_train_epoch_start",
    "on_train_batch_start",
    "training_step",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
    "on_train_epoch_end",
    "on_train_end",
)
ITEMS = (*alone(), "watch")
LENGTH = {"max_epochs": 1}  # of an item that does not shape the run
OF_MODULE = ("configure_optimizers", "setup", *HOOKS)


class Planted(Exception):
    pass


def fail(*arguments, **options):
    raise Planted("planted by the project")


def broken(kind: type, place: str) -> type:
    return type("Broken", (kind,), {place: fail})


def assert_own(verdict):
    assert verdict.error is None, verdict.error
    assert verdict.status == "failed", (verdict.status, verdict.skipped)
    assert any("planted by the project" in finding.what for finding in verdict.findings), verdict.findings


@pytest.mark.parametrize("place", OF_DATA)
@pytest.mark.parametrize("item", ITEMS)
def test_exception_of_the_datamodule_is_its_own_finding(net, data, item, place):
    if (item, place) == ("overfit", "val_dataloader"):
        return  # it validates nothing
    assert_own(check(net(), broken(data, place)(), items=[item], trainer=LENGTH)[item])


@pytest.mark.parametrize("place", OF_MODULE)
@pytest.mark.parametrize("item", ITEMS)
def test_exception_of_the_module_is_its_own_finding(net, data, item, place):
    assert_own(check(broken(net, place)(), data(), items=[item], trainer=LENGTH)[item])


@pytest.mark.parametrize("item", ITEMS)
def test_exception_of_a_constructor_is_its_own_finding(net, data, item):
    assert_own(check(lambda: broken(net, "__init__")(), data(), items=[item], trainer=LENGTH)[item])


def test_what_raises_aside_draws_nothing_of_the_runs_random_numbers():
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    with suppress(Planted), isolate_rng():
        torch.manual_seed(0)
        fail()
    assert torch.rand(2).tolist() == expected
