import ast
import copy
import re

import pytest
import torch
from own_project import run_project
from pytorch_lightning import Callback, LightningDataModule, LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric, MinMetric
from training_checklist import check
from training_checklist.engines.loads import recorded_loads, seen
from training_checklist.engines.stand_in import stand_in
from training_checklist.experiments.fast_dev_run import FastDevRun
from training_checklist.probes.run.hook_never_called import like_hooks
from training_checklist.probes.run.no_loss import may_skip


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


def test_data_to_predict_may_be_missing_and_data_to_test_may_not(examine, net, data):
    class Full(net):
        def test_step(self, batch, batch_idx):
            self.log("test/loss", self.loss(batch))

        def predict_step(self, batch, batch_idx):
            return self(batch[0])

    def missing(self):
        raise ValueError("no data were given")

    whole = type("Whole", (data,), {"test_dataloader": data.val_dataloader, "predict_dataloader": missing})
    verdict = examine("fast_dev_run", Full(), whole())
    assert verdict.status == "passed"
    assert "nothing to predict here: ValueError: no data were given; ran train, validate, test" in verdict.seen
    untested = type("Untested", (data,), {"test_dataloader": missing})
    assert examine("fast_dev_run", Full(), untested()).status == "failed"


def test_data_to_predict_that_another_program_prepares_may_be_none(examine, net, data):
    class Full(net):
        def predict_step(self, batch, batch_idx):
            return self(batch[0])

    class Unprepared(data):
        def predict_dataloader(self):
            return DataLoader(None)

    verdict = examine("fast_dev_run", Full(), Unprepared())
    assert verdict.status == "passed"
    assert "nothing to predict here: TypeError" in verdict.seen


@pytest.mark.parametrize(("refuses", "status"), [(True, "passed"), (False, "failed")])
def test_prediction_that_the_project_itself_refuses_was_not_asked_for(examine, net, data, refuses, status):
    class Full(net):
        def predict_step(self, batch, batch_idx):
            if refuses:
                raise ValueError("set a sampler first")
            return None + batch

    class Whole(data):
        def predict_dataloader(self):
            return DataLoader(self.part(3), batch_size=16)

    assert examine("fast_dev_run", Full(), Whole()).status == status


METHODS = {
    "a hook of Lightning 1": (Callback, "on_epoch_start", "on_train_epoch_start"),
    "misspelt": (Callback, "on_validation_epochs_end", "on_validation_epoch_end"),
    "another kind's": (LightningDataModule, "on_train_epoch_start", "no LightningDataModule has that hook"),
    "no hook at all": (Callback, "on_new_best", "Lightning has no such hook"),
    "a loader's name": (LightningDataModule, "valid_dataloader", "val_dataloader"),
    "a step's name": (LightningModule, "train_step", "Lightning has no such hook"),
    "what is no hook's name": (LightningModule, "encode", ""),
    "a hook": (Callback, "on_train_epoch_start", ""),
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("case", METHODS)
def test_method_that_is_named_like_a_hook_and_never_called(case, named):
    base, name, said = METHODS[case]
    thing = type("Own", (base,), {name: lambda self: None, "__module__": __name__})()
    words = {name} if named else {"encode"}
    found = [hit.what for hit in like_hooks([thing], words)]
    assert len(found) == (said != "" and not named)
    assert all(f"Own.{name} is never called" in what and said in what for what in found)


def test_module_that_is_given_as_the_datamodule_has_the_hooks_of_one():
    given = type("Own", (LightningModule,), {"on_exception": lambda self, error: None, "__module__": __name__})()
    assert list(like_hooks([given], set(), trained=LightningModule())) == []
    assert len(list(like_hooks([given], set(), trained=given))) == 1


def test_stage_after_training_that_raises_is_not_passed_over(examine, net, data):
    class Broken(net):
        def test_step(self, batch, batch_idx):
            raise KeyError("no such metric")

    class Tested(data):
        def test_dataloader(self):
            return DataLoader(self.part(3), batch_size=16)

    [finding] = examine("fast_dev_run", Broken(), Tested()).findings
    assert "KeyError: 'no such metric'" in finding.what


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


def test_metric_that_lightning_logs_three_times_is_told_of_once(examine, net):
    class Dividing(net):
        def training_step(self, batch, batch_idx):
            self.log("train/score", torch.tensor(0.0) / 0, on_step=True, on_epoch=True)
            return super().training_step(batch, batch_idx)

    [finding] = examine("fast_dev_run", Dividing()).findings
    assert finding.where == "self.log('train/score', ...)"


def test_best_value_that_is_never_updated_is_named(examine, net):
    class Forgotten(net):
        def __init__(self):
            super().__init__()
            self.best = MinMetric()

        def on_validation_epoch_end(self):
            self.log("val/best", self.best.compute())

    [finding] = examine("fast_dev_run", Forgotten()).findings
    assert finding.what == "the metric val/best is inf after one batch: best was never updated"


def test_metric_that_a_later_batch_updates_first_is_not_called_nan(examine, net):
    class Seldom(net):
        def __init__(self):
            super().__init__()
            self.mean = MeanMetric()

        def training_step(self, batch, batch_idx):
            if batch_idx % 5 == 4:
                self.mean(1.0)
            self.log("train/seldom", self.mean, on_step=False, on_epoch=True)
            return super().training_step(batch, batch_idx)

    assert examine("fast_dev_run", Seldom()).status == "passed"


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


class TestLoadedWeights:
    """Networks that load weights with strict=False when they are made."""

    def judge(self, net, data, *changes):
        """The verdict where weights of another such network are loaded, as each change in turn makes them."""

        class Loading(net):
            def __init__(self):
                super().__init__()
                for change in changes:
                    self.load_state_dict(change(net().state_dict()), strict=False)

        return check(Loading, data(), items=["fast_dev_run"])["fast_dev_run"]

    @pytest.mark.parametrize(
        ("change", "advice"),
        [
            (lambda weights: {f"model.{key}": value for key, value in weights.items()}, "key.removeprefix('model.')"),
            (lambda weights: {"state_dict": weights, "epoch": 3}, "load_state_dict(checkpoint['state_dict'])"),
            (lambda weights: {"conv.weight": torch.ones(1)}, "print what load_state_dict returns"),
        ],
    )
    def test_weights_of_which_no_key_matches_are_named_with_the_change_that_makes_them_match(
        self, net, data, change, advice
    ):
        [finding] = self.judge(net, data, change).findings
        assert finding.rule == "run/weights-not-loaded"
        assert "is among the 4 of Loading, which has 'first.weight'" in finding.what
        assert advice in finding.fix.advice
        assert (finding.place.source, finding.place.file) == (
            "self.load_state_dict(change(net().state_dict()), strict=False)",
            "packages/training-checklist/tests/test_fast_dev_run.py",
        )

    def test_prefix_that_the_weights_lack_is_named(self, net, data):
        class Wrapped(net):
            def __init__(self):
                super().__init__()
                self.first, self.body = nn.Identity(), nn.ModuleDict({"first": nn.Linear(8, 32)})
                self.body.add_module("norm", nn.BatchNorm1d(32))
                weights = {**nn.Linear(8, 32).state_dict(prefix="first."), "norm.bias": torch.ones(32)}
                self.load_state_dict(weights, strict=False)

            def forward(self, inputs):
                return self.head(self.body["first"](inputs).relu())

        [finding] = check(Wrapped, data(), items=["fast_dev_run"])["fast_dev_run"].findings
        assert "put the prefix 'body.' in front" in finding.fix.advice

    def test_some_of_the_weights_are_loaded_on_purpose(self, net, data):
        verdict = self.judge(net, data, lambda weights: {"first.bias": weights["first.bias"], "old_head.bias": 0})
        assert (verdict.status, "run/weights-not-loaded" in verdict.judged) == ("passed", True)

    def test_second_attempt_that_matches_makes_up_for_the_first(self, net, data):
        other = {"model.first.bias": torch.ones(32)}
        assert self.judge(net, data, lambda weights: other, lambda weights: weights).status == "passed"
        assert self.judge(net, data, lambda weights: weights, lambda weights: other).status == "passed"
        assert self.judge(net, data, lambda weights: other, lambda weights: other).status == "failed"

    def test_what_lightning_loads_is_not_the_projects_own_call(self, net, tmp_path):
        torch.save({"state_dict": {"other": torch.ones(1)}, "pytorch-lightning_version": "2.0"}, tmp_path / "a.ckpt")
        with recorded_loads(["fast_dev_run"]):
            net.load_from_checkpoint(tmp_path / "a.ckpt", strict=False)
            assert seen() == []

    def test_record_changes_nothing_and_ends(self, net):
        load = nn.Module.load_state_dict
        with recorded_loads(["overfit", "gradients"]):
            assert nn.Module.load_state_dict is load
        with recorded_loads(["fast_dev_run"]):
            assert nn.Module.load_state_dict is not load
            assert net().load_state_dict({"a": 1}, False) == load(net(), {"a": 1}, False)
            with pytest.raises(RuntimeError, match="size mismatch for head"):
                net().load_state_dict({"head.bias": torch.ones(9)}, strict=False)
            with pytest.raises(TypeError):
                net().load_state_dict(strict=False)
        assert nn.Module.load_state_dict is load


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

    test_step = training_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    trainer = pl.Trainer(**cfg.trainer, callbacks=[instantiate(part) for part in cfg.callbacks.values()])
    lit = Lit()
    trainer.fit(lit, DataLoader(torch.randn(64, 2), 4))
    weights = torch.load(trainer.checkpoint_callback.best_model_path)["state_dict"] if cfg.saved else lit.state_dict()
    shipped = Lit()
    shipped.load_state_dict({f"net.{key}": value for key, value in weights.items()}, strict=False)
    trainer.test(shipped, DataLoader(torch.randn(64, 2), 4))


if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults:
  - _self_
  - debug: null

saved: false
callbacks:
  checkpoint:
    _target_: pytorch_lightning.callbacks.ModelCheckpoint
    dirpath: ${hydra:runtime.output_dir}
trainer:
  max_epochs: 2
  accelerator: cpu
  logger: false
  enable_progress_bar: false
  enable_model_summary: false
"""


@pytest.mark.parametrize(("item", "saved"), [("fast_dev_run", False), ("paths", True)])
def test_weights_that_are_loaded_after_training_are_looked_at(tmp_path, item, saved):
    [verdict] = run_project(tmp_path, item, {"train.py": TRAIN, "conf/train.yaml": CONFIG}, f"saved={saved}")
    [finding] = verdict["findings"]
    assert (finding["rule"], finding["severity"]) == ("run/weights-not-loaded", "failed")
    assert finding["place"]["file"] == "train.py"


@pytest.mark.parametrize(
    ("body", "skips"),
    [
        ("if len(self.buffer) < 8:\n        return None\n    return loss", True),
        ("if len(self.buffer) < 8:\n        return\n    return loss", True),
        ("loss = None\n    if known.any():\n        loss = self.loss(batch)\n    return loss", True),
        ("if len(self.buffer) < 8:\n        loss = 2 * loss\n    return None", False),
        ("return loss", False),
    ],
)
def test_step_that_skips_batches_under_a_condition(body, skips):
    assert may_skip(ast.parse(f"def training_step(self, batch, batch_idx):\n    {body}")) is skips


DATA = """
class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(torch.randn(64, 2), 4)

    test_dataloader = train_dataloader

    def predict_dataloader(self):
        return self.test_dataloader()


@hydra.main("""
BROKEN = """def test_step(self, batch, batch_idx):
        raise KeyError("no such metric")
"""
FITTED = """    lit, data = Lit(), Data()
    trainer.fit(lit, data)
    # here

"""
TESTED = re.sub(r"    lit = Lit\(\).*?\n\n", FITTED, TRAIN, flags=re.DOTALL)
TESTED = TESTED.replace("test_step = training_step\n", BROKEN).replace("\n@hydra.main(", DATA)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", "failed"),
        ("print(sum(lit.layer(batch).sum() for batch in data.test_dataloader()))", "passed"),
        ("data.test_dataloader(), trainer.test(lit, data) if cfg.saved else None", "failed"),
    ],
)
def test_crash_in_testing_where_code_takes_the_samples_itself(tmp_path, code, status):
    files = {"train.py": TESTED.replace("# here", code), "conf/train.yaml": CONFIG}
    [verdict] = run_project(tmp_path, "fast_dev_run", files)
    assert verdict["verdict"] == status
    assert ("no code calls Trainer.test, which raises: KeyError" in verdict["seen"]) is (status == "passed")


@pytest.mark.parametrize(("value", "severity"), [("${hydra:runtime.cwd}", "remark"), ("work", "warning")])
def test_key_that_names_another_value_and_is_not_read_sets_nothing(tmp_path, value, severity):
    code = TESTED.replace('raise KeyError("no such metric")', "pass").replace("# here", "work_dir = cfg.paths.data")
    files = {"train.py": code, "conf/train.yaml": f"{CONFIG}paths:\n  data: data\n  work_dir: {value}\n"}
    [verdict] = run_project(tmp_path, "fast_dev_run", files)
    [finding] = [each for each in verdict["findings"] if each["rule"] == "run/key-never-read"]
    assert (finding["place"]["key"], finding["severity"]) == ("paths.work_dir", severity)


@pytest.mark.parametrize("beside", [False, True])
def test_method_that_another_program_beside_this_one_calls(tmp_path, beside):
    method = "    def val_dataloaders(self):\n        return [self.test_dataloader()]\n"
    code = TESTED.replace("    def predict_dataloader", f"{method}\n    def predict_dataloader")
    files = {"train.py": code.replace('raise KeyError("no such metric")', "pass"), "conf/train.yaml": CONFIG}
    files["evaluate.py"] = "def lengths(data):\n    return map(len, data.val_dataloaders())\n" if beside else ""
    [verdict] = run_project(tmp_path, "fast_dev_run", files)
    assert verdict["verdict"] == ("passed" if beside else "warning")
    assert [finding["rule"] for finding in verdict["findings"]] == ([] if beside else ["run/hook-never-called"])


@pytest.mark.parametrize(("name", "status"), [("val/loglik_std", "passed"), ("val/loglik", "failed")])
def test_how_far_the_losses_of_batches_differ_one_batch_does_not_tell(examine, net, name, status):
    class Spread(net):
        def on_validation_epoch_start(self):
            self.losses = []

        def validation_step(self, batch, batch_idx):
            self.losses.append(self.loss(batch))

        def on_validation_epoch_end(self):
            self.log(name, torch.stack(self.losses).std())

    assert examine("fast_dev_run", Spread()).status == status


class WithDerived(nn.Module):
    """Keeps in a buffer what it has computed with a graph."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("derived", torch.ones(4))

    def forward(self, answers):
        self.derived = 2 * self.weight
        return answers * self.derived


def test_buffer_with_a_graph_is_copied_without_it(net):
    module = net()
    module.part = WithDerived()
    module.part(torch.ones(4))
    assert stand_in(module, Trainer(logger=False)).part.derived.grad_fn is None
