"""Without Hydra: from a script, a notebook or a test, on a LightningModule that is at hand."""

import copy
import gc
import json
import pickle
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, update_wrapper
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint, TQDMProgressBar
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from training_checklist import check, lightning, probes
from training_checklist.engines.fingerprints import bytes_in, digest
from training_checklist.engines.instead import put
from training_checklist.engines.replay import call_step, collecting_nothing, ignore, unchanged
from training_checklist.experiments.reproducibility.repetition import Repetition
from training_checklist.lightning import NAME, NAMES
from training_checklist.python_call import ORDER, alone


def test_healthy_network_passes_and_stays_as_it_is(net, data):
    module = net()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert check(module, data(), items=["fast_dev_run", "overfit"]).passed
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_failed_item_is_shown_with_rule_place_and_the_next_call(net, data):
    class Broken(net):
        def loss(self, batch):
            return super().loss(batch) * float("nan")

    results = check(Broken(), data(), items=["fast_dev_run"])
    assert not results.passed
    finding = results["fast_dev_run"].findings[0]
    assert finding.rule == "run/loss-not-finite"
    assert "run/loss-not-finite" in repr(results)
    assert "check(module, datamodule, items=['limit_batches'])" in finding.command


def test_next_call_with_another_value_is_one_that_check_takes(net, data):
    few = {"overfit": {"max_steps": 20}}
    [finding] = check(net(lr=1e-6), data(), items=["overfit"], checks=few)["overfit"].findings
    call, _, value = finding.command.partition(" with ")
    assert value.startswith("optimizer.lr=")
    assert eval(call, {"check": check, "module": net(lr=0.01), "datamodule": data()})["overfit"].status == "passed"


def test_exception_of_the_project_is_a_finding_and_not_ours(net, data):
    class Broken(net):
        def configure_optimizers(self):
            raise KeyError("no such optimizer")

    verdict = check(Broken(), data(), items=["fast_dev_run"])["fast_dev_run"]
    assert (verdict.status, verdict.error) == ("failed", None)
    assert "no such optimizer" in verdict.findings[0].what


def test_what_fails_under_an_item_alone_is_a_mistake_of_the_checklist(net, data):
    class Refusing(net):
        def loss(self, batch):
            if torch.is_anomaly_enabled():
                raise RuntimeError("not like this")
            return super().loss(batch)

    results = check(Refusing(), data(), items=["anomaly", "overflow"])
    assert results["overflow"].status == "passed"
    assert not results["anomaly"].findings
    assert "not like this\nonly with anomaly" in results["anomaly"].error


def test_backward_that_makes_nan_is_the_projects_although_training_goes_on_without_the_item(net, data):
    class Rooted(net):
        def loss(self, batch):
            return super().loss(batch) + (0 * self(batch[0])).sqrt().mean()

    verdict = check(Rooted(), data(), items=["anomaly"])["anomaly"]
    assert (verdict.status, verdict.error) == ("failed", None)
    assert [finding.rule for finding in verdict.findings] == ["numerics/backward-not-finite"]


def test_callbacks_and_loggers_at_hand_leave_nothing_and_go_on_as_they_were(net, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "last.ckpt").write_text("mine")
    logger, keeping = CSVLogger("logs", name="mine"), ModelCheckpoint("kept", save_last=True)
    items, trainer = (
        ["limit_batches", "paths", "learning", "reproducibility"],
        {"logger": logger, "callbacks": [keeping]},
    )
    check(net(), data(), items=items, trainer={**trainer, "max_epochs": 2})
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert found == {"kept", "kept/last.ckpt"}
    assert (tmp_path / "kept" / "last.ckpt").read_text() == "mine"
    assert (keeping.best_model_path, logger._experiment) == ("", None)


@pytest.mark.parametrize("several", [False, True])
def test_callback_that_cannot_be_copied_begins_each_fit_anew(net, data, several):
    class Once(Callback):
        def __init__(self):
            self.lock, self.begun = threading.Lock(), False

        def on_fit_start(self, trainer, pl_module):
            if self.begun:
                raise RuntimeError("has fitted before")
            self.begun = True

    callbacks = [Once(), TQDMProgressBar()] if several else Once()
    results = check(net(), data(), items=["trace", "anomaly", "reproducibility"], trainer={"callbacks": callbacks})
    assert [verdict.status for verdict in results.verdicts] == ["passed"] * 3, results


@pytest.mark.parametrize("own", [{}, {"train": print}])
def test_what_two_experiments_put_in_the_place_of_a_method_is_gone_in_whatever_order_they_leave(net, own):
    module = net()
    vars(module).update(own)
    first, second = (put(module, "train", lambda *_: None) for _ in range(2))
    first()
    second()
    assert {name: value for name, value in vars(module).items() if name == "train"} == own


def test_trainer_without_features_is_looked_at_with_what_an_item_needs(net, data):
    results = check(net(), data(), items=["anomaly", "limit_batches", "learning"], trainer={"barebones": True})
    assert [verdict.status for verdict in results.verdicts] == ["passed"] * 3, results


@pytest.mark.parametrize("item", ["fast_dev_run", "learning"])
def test_exit_in_the_projects_code_is_a_finding_at_its_line(net, data, item):
    class Looked(net):
        def loss(self, batch):
            raise SystemExit

    verdict = check(Looked(), data(), items=[item])[item]
    assert (verdict.findings[0].rule, verdict.error) == ("crash/exit-called", None)
    assert "raise SystemExit" in verdict.findings[0].place.source


def test_loaders_instead_of_a_datamodule_and_a_function_that_makes_the_module(net, data):
    loaders = {"train_dataloaders": data().train_dataloader(), "val_dataloaders": data().val_dataloader()}
    assert check(net, loaders=loaders, items=["fast_dev_run"]).passed


def test_loaders_that_no_name_tells_are_refused(net, data):
    expected = re.escape("expected a dict with train_dataloaders and val_dataloaders")
    for loaders, given in ((data().train_dataloader(), "DataLoader"), ({"train": None}, r"\['train'\]")):
        with pytest.raises(TypeError, match=f"is given {given}; {expected}"):
            check(net, loaders=loaders)


def test_a_trainer_in_the_place_of_its_arguments_is_refused(net, data):
    with pytest.raises(TypeError, match=re.escape("check(trainer=...) is given a Trainer; expected a dict")):
        check(net(), data(), trainer=Trainer(logger=False, enable_checkpointing=False))


def test_item_that_needs_a_hydra_application_is_skipped_with_the_reason(net, data):
    verdict = check(net(), data(), items=["config"])["config"]
    assert verdict.status == "skipped"
    assert "Hydra" in verdict.skipped


def test_items_are_all_those_that_can_run_without_an_application_unless_some_are_named():
    assert set(ORDER) - set(alone()) == {"config", "paths", "distributed"}


class Noisy:
    """Mixed into a network: draws from a generator that no seed reaches."""

    generator = torch.Generator()

    def forward(self, inputs):
        hidden = super().forward(inputs)
        return hidden + torch.randn(hidden.shape, generator=self.generator)


@pytest.mark.parametrize("made", [False, True])
def test_one_seed_is_asked_for_one_result_by_fitting_twice(net, data, made):
    class Unsteady(Noisy, net):
        pass

    verdict = check(net if made else net(), data(), items=["reproducibility"])["reproducibility"]
    assert (verdict.status, "equal in both runs" in verdict.seen) == ("passed", True), verdict.findings
    assert ("reproducibility/initial-weights-differ" in verdict.judged) == made
    [finding] = check(Unsteady if made else Unsteady(), data(), items=["reproducibility"])["reproducibility"].findings
    assert finding.rule == "reproducibility/steps-differ"
    assert "Noisy.forward" in finding.where


def test_masks_of_a_batch_are_compared(net, data):
    class Masked(net):
        def training_step(self, batch, batch_idx):
            inputs, labels, mask = batch
            return self.loss([inputs[mask], labels[mask]])

    tensors = *data().part(1).tensors, torch.arange(160) % 3 > 0
    loaders = {"train_dataloaders": DataLoader(TensorDataset(*tensors), 16)}
    assert check(Masked(), loaders=loaders, items=["reproducibility"])["reproducibility"].status == "passed"


def test_generator_of_a_loader_that_is_given_begins_each_fit_where_it_stood(net, data):
    loader = data().train_dataloader()
    seeded = DataLoader(loader.dataset, 16, shuffle=True, generator=torch.Generator().manual_seed(1))
    assert check(net, loaders={"train_dataloaders": seeded}, items=["reproducibility"]).passed


def test_report_lies_in_the_folder(net, data, tmp_path):
    check(net(), data(), items=["fast_dev_run"], folder=tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "passed"


@pytest.mark.parametrize("is_kept", [True, False])
def test_file_that_an_item_names_is_there_when_the_check_is_over(net, data, tmp_path, is_kept):
    seen = check(net(), data(), items=["trace"], folder=tmp_path if is_kept else None)["trace"].seen
    assert [Path(path).is_file() for path in re.findall(r"see (\S+)", seen)] == [True] * is_kept


def test_rule_is_silenced_with_a_reason_that_the_report_shows(net, data):
    class Doubtful(net):
        def loss(self, batch):
            return super().loss(batch) * 0

    known = {"silence": {"run/loss-exactly-zero": "the loss is a placeholder until the labels arrive"}}
    verdict = check(Doubtful(), data(), items=["fast_dev_run"], checks=known)["fast_dev_run"]
    assert (verdict.status, len(verdict.silenced)) == ("passed", 1)
    assert verdict.silenced[0][1].startswith("the loss is a placeholder")


def test_silencing_that_silences_nothing_is_pointed_out(net, data):
    checks = {"silence": {"run/loss-exactly-zero": "it was so once"}}
    results = check(net(), data(), items=["fast_dev_run"], checks=checks)
    assert results.notes == (
        "checks.silence.run/loss-exactly-zero silences nothing: that rule finds nothing here any more; remove it",
    )


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ({"silence": {"run/loss-exactly-zer": "why"}}, "did you mean run/loss-exactly-zero"),
        ({"silence": {"run/no-loss": ""}}, "gives no reason"),
        ({"overfit": {"max_stepz": 3}}, "did you mean checks.overfit.max_steps"),
        ({"rules": ["no.such.module"]}, "checks.rules"),
        ({"baseline": "missing.json"}, "checks.baseline=missing.json cannot be read"),
    ],
)
def test_mistake_in_the_settings_is_refused_with_the_nearest_name(net, data, checks, said):
    with pytest.raises(ValueError, match=r"checks\.") as refused:
        check(net(), data(), items=["overfit"], checks=checks)
    assert said in str(refused.value)


def test_unknown_item_is_refused_with_those_that_exist(net):
    with pytest.raises(ValueError, match="items has 'overfitt'; there are fast_dev_run"):
        check(net(), items=["overfitt"])


def test_mistake_of_a_probe_is_a_tool_error_and_the_other_probes_still_judge(net, data, monkeypatch):
    sound = probes.load("run/no-loss")
    broken = replace(sound, id="run/broken", detect=lambda stages, limits: 1 / 0)
    known = {probe.id: probe for probe in (broken, sound)}
    monkeypatch.setattr(probes, "names", lambda: known)
    monkeypatch.setattr(probes, "load", known.__getitem__)
    verdict = check(net(), data(), items=["fast_dev_run"])["fast_dev_run"]
    assert verdict.status == "tool error"
    assert "probe run/broken: ZeroDivisionError" in verdict.error
    assert verdict.judged == ["run/no-loss"]


def test_nothing_is_passed_of_which_no_hook_has_run(net, data):
    class Empty(data):
        def train_dataloader(self):
            return []

    verdict = check(net(), Empty(), items=["fast_dev_run"])["fast_dev_run"]
    assert verdict.status == "skipped"


def test_layer_is_named_in_a_crash(net, data):
    class Narrow(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(31, 4)

    [finding] = check(Narrow(), data(), items=["fast_dev_run"])["fast_dev_run"].findings
    assert "head" in finding.where


class Using:
    """Mixed into a network: uses what a Trainer has, as scripts do."""

    def on_train_epoch_end(self):
        self.trainer.logger.log_metrics({"epoch_end": 1.0})

    def on_train_end(self):
        saved = self.trainer.checkpoint_callback
        assert saved is not None
        if saved.best_model_path:
            type(self).load_from_checkpoint(saved.best_model_path, weights_only=True)


def test_trainer_has_a_logger_and_a_checkpoint_callback_and_leaves_nothing(net, data, tmp_path, monkeypatch):
    class Module(Using, net):
        pass

    monkeypatch.chdir(tmp_path)
    items = ["fast_dev_run", "trace", "gradients", "overfit"]
    results = check(Module(), data(), items=items, folder="report")
    assert [results[item].status for item in items] == ["passed"] * len(items), results
    left = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")}
    assert left == {"report"}
    assert not list(tmp_path.rglob("*.ckpt")) + list(tmp_path.rglob("version_*"))


class Pickled(nn.Module):
    """Of a module whose class can be found by its name, as that of a project can."""


def test_module_can_be_pickled_while_a_stand_in_is_in_the_place_of_its_method():
    module = Pickled()
    put(module, "train", lambda *_: "instead")
    assert module.train() == "instead"
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert copied.train() is copied


@pytest.mark.parametrize("item", ["fast_dev_run", "trace", "profile", "memory", "gradients", "overfit", "learning"])
def test_callbacks_of_the_trainer_can_be_pickled_and_copied(net, data, item):
    class Sending(net):
        def on_train_start(self):
            for sent in (copy.deepcopy(self.trainer.callbacks), pickle.loads(pickle.dumps(self.trainer.callbacks))):
                assert len(sent) == len(self.trainer.callbacks)

    assert check(Sending(), data(), items=[item])[item].error is None


def test_module_that_cannot_be_copied_is_refused_with_what_to_give_instead(net, data):
    class Locked(net):
        def __deepcopy__(self, memo):
            raise RuntimeError("there is only one")

    with pytest.raises(TypeError, match=r"there is only one.*a function that makes one"):
        check(Locked(), data(), items=["fast_dev_run"])


def test_loaders_that_cannot_be_copied_skip_the_item_that_fits_twice(net, data):
    loaders = {"train_dataloaders": (batch for batch in data().train_dataloader())}
    verdict = check(net(), loaders=loaders, items=["reproducibility"])["reproducibility"]
    assert "function that makes a datamodule" in verdict.skipped


def test_training_on_a_stream_without_samples_of_its_own_is_looked_at(net, data):
    class Stream:
        def __iter__(self):
            return iter(data().train_dataloader())

    assert check(net(), loaders={"train_dataloaders": Stream()}, items=["limit_batches"]).passed


def test_run_on_a_stream_without_length_is_one_epoch_to_its_hooks(net, data):
    class Stream(IterableDataset):
        def __iter__(self):
            while True:
                yield from data().part(1)

    class Slowed(net):
        def on_train_batch_start(self, batch, batch_idx):
            self.trainer.optimizers[0].param_groups[0]["lr"] = 1e-2 / (1 + self.global_step)

    verdict = check(Slowed(), loaders={"train_dataloaders": DataLoader(Stream(), 8)}, items=["learning"])["learning"]
    assert verdict.error is None


def test_answer_that_keeps_more_tensors_each_time_that_the_loss_asks_it_is_checked(net, data):
    """As a distribution does that remembers its factors."""

    class Answer:
        def __init__(self, logits):
            self.logits, self.asked, self.factors = logits, [], [[[[[logits]]]]]

        def log_probabilities(self):
            self.asked.append(self.logits.log_softmax(1))
            return self.asked[-1]

    class Asks(net):
        def forward(self, inputs):
            return Answer(super().forward(inputs))

        def loss(self, batch):
            return nn.functional.nll_loss(self(batch[0]).log_probabilities(), batch[1])

    assert check(Asks(), data(), items=["gradcheck"])["gradcheck"].error is None


def test_module_of_the_other_lightning_is_refused_by_its_name(net):
    [name] = {*NAMES} - {NAME}
    other = type("LightningModule", (), {"__module__": f"{name}.core.module"})
    with pytest.raises(TypeError, match="import training_checklist after the module"):
        check(type("Net", (other,), {})())


def test_lightning_is_the_package_that_a_module_derives_from_where_both_are_imported(monkeypatch):
    for name in NAMES:
        made = type("LightningModule", (), {"__module__": f"{name}.core.module"})
        monkeypatch.setitem(sys.modules, f"{name}.core.module", SimpleNamespace(LightningModule=made))
        monkeypatch.setitem(sys.modules, f"{name}.trainer.trainer", made)
    monkeypatch.setattr(lightning, "find_spec", lambda name: name)
    for name in NAMES:
        derived = type("Net", (sys.modules[f"{name}.core.module"].LightningModule,), {})
        assert lightning.chosen() == name
        del derived
        gc.collect()


def test_of_two_lightnings_in_a_script_the_one_that_the_config_builds_is_chosen(monkeypatch):
    """The other one may be there for an annotation."""
    for name in NAMES:
        monkeypatch.setitem(sys.modules, f"{name}.trainer.trainer", types.ModuleType(name))
    monkeypatch.setattr(lightning, "find_spec", lambda name: name)
    monkeypatch.setattr(lightning, "is_derived_from", lambda name: False)
    monkeypatch.setattr(
        lightning, "script", lambda: "import pytorch_lightning\nfrom lightning.pytorch import loggers\n"
    )
    for name in NAMES:
        monkeypatch.setattr(lightning, "config", lambda name=name: f"trainer:\n  _target_: {name}.Trainer\n")
        assert lightning.chosen() == name


class Potential(nn.Module):
    """Answers with an energy and its slope, whose graph it keeps in training alone, as force fields do."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, places):
        places.requires_grad_()
        energy = self.layers(places)
        (slope,) = torch.autograd.grad(energy.sum(), places, create_graph=self.training)
        return energy, -slope


def test_network_that_asks_for_gradients_in_its_forward_is_looked_at_without_an_alarm(net, data):
    class ForceField(net):
        def __init__(self):
            super().__init__()
            self.first, self.head = Potential(), nn.Identity()

        def loss(self, batch):
            places = batch[0].clone()
            with torch.inference_mode(False), torch.enable_grad():
                energy, force = self.first(places.clone())
            target = places.square().sum(1, keepdim=True)
            return (energy - target).square().mean() + (force + 2 * places).square().mean()

    results = check(ForceField(), data(), items=["trace", "memory"])
    assert [(verdict.status, verdict.findings) for verdict in results.verdicts] == [("passed", [])] * 2


def test_training_step_that_takes_a_gradient_and_writes_into_its_batch_is_looked_at(net):
    """As force fields do, whose forces are the slope of an energy that they are compared with, too."""

    class ForceField(net):
        def training_step(self, batch, batch_idx):
            wanted, wanted_force = batch["energy"], batch["force"]
            batch["energy"] = self(batch["places"].requires_grad_())
            (slope,) = torch.autograd.grad(batch["energy"].sum(), batch["places"], create_graph=True)
            loss = nn.functional.mse_loss(batch["energy"], wanted) + nn.functional.mse_loss(-slope, wanted_force)
            self.log("train/loss", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            pass

    module = ForceField()
    module.first, module.head = nn.Linear(8, 32), nn.Sequential(nn.SiLU(), nn.Linear(32, 1))
    places = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    samples = [{"places": each, "energy": each.square().sum(0, keepdim=True), "force": -2 * each} for each in places]
    results = check(
        module, loaders={"train_dataloaders": DataLoader(samples, 16, shuffle=True)}, items=["trace", "learning"]
    )
    unjudged = [reason for verdict in results.verdicts for reason in verdict.unjudged.values()]
    assert [verdict.skipped for verdict in results.verdicts] == [None, None]
    assert [reason for reason in unjudged if "raises" in reason] == []
    assert results.passed


class Samples(Mapping):
    """A mapping that is more than its items, as a TensorDict is, and not to be made of its items alone."""

    def __init__(self, items, number, device):
        self.items_, self.number, self.device = dict(items), number, device

    def __getitem__(self, name):
        return self.items_[name]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)

    def to(self, device, **_):
        return Samples({name: each.to(device) for name, each in self.items()}, self.number, device)


def unpacked(samples):
    return list(samples.values()), (list(samples), samples.device)


def packed(values, known):
    names, device = known
    return Samples(zip(names, values, strict=True), len(values[0]), device)


torch.utils._pytree.register_pytree_node(Samples, unpacked, packed)


def test_batch_that_knows_its_number_and_device_beside_its_items_keeps_them(net, data):
    class Knowing(net):
        def loss(self, batch):
            weights = torch.ones(
                batch.number,
                device=batch.device,
            )
            losses = nn.functional.cross_entropy(self(batch["x"]), batch["y"], reduction="none")
            return (weights * losses).mean()

    def collate(samples):
        inputs, labels = zip(*samples, strict=True)
        return Samples({"x": torch.stack(inputs), "y": torch.stack(labels)}, len(labels), "cpu")

    loader = DataLoader(data().part(1), 16, collate_fn=collate)
    results = check(
        Knowing(), loaders={"train_dataloaders": loader}, items=["device", "trace", "gradients", "memory", "learning"]
    )
    unjudged = [reason for verdict in results.verdicts for reason in verdict.unjudged.values()]
    assert [verdict.skipped for verdict in results.verdicts] == [None] * 5
    assert [reason for reason in unjudged if "raises" in reason or "Error" in reason] == []
    assert results.passed, results


class Graph:
    """Looks in its store for what it has not, and has none while it is copied."""

    def __init__(self, **parts):
        vars(self)["store"] = parts

    def __getattr__(self, name):
        return self.store[name]

    def __getitem__(self, name):
        return self.store[name]

    def to(self, device):
        return Graph(**{name: each.to(device) for name, each in self.store.items()})


FORMS = {
    "uncopied": lambda inputs, labels: Graph(x=inputs, y=labels),
    "generator": lambda inputs, labels: {"x": inputs, "y": labels, "numbers": (number for number in range(3))},
    "jagged": lambda inputs, labels: {
        "x": torch.nested.nested_tensor([*inputs[:, None]], layout=torch.jagged),
        "y": labels,
    },
    "packed": lambda inputs, labels: {"x": nn.utils.rnn.pack_sequence([*inputs[:, None]]), "y": labels},
}


@pytest.mark.parametrize("form", FORMS)
def test_batch_that_cannot_be_copied_or_cut_ends_no_item(net, data, form):
    class Taking(net):
        def loss(self, batch):
            inputs = batch["x"]
            inputs = inputs.values() if form == "jagged" else inputs.data
            return super().loss((inputs, batch["y"]))

    def collate(samples):
        return FORMS[form](*map(torch.stack, zip(*samples, strict=True)))

    loaders = {"train_dataloaders": DataLoader(data().part(1), 16, collate_fn=collate)}
    items = ["device", "trace", "overflow", "gradcheck", "overfit", "learning"]
    results = check(Taking(), loaders=loaders, items=items)
    assert results.passed, results
    assert [verdict.skipped for verdict in results.verdicts if verdict.item != "device"] == [None] * 5, results


@pytest.mark.parametrize(
    "further", [torch.zeros(64, 6, 0), torch.ones(64, 6, dtype=torch.complex64)], ids=["0", "complex"]
)
def test_part_of_a_batch_without_numbers_in_an_order_takes_no_part_in_a_search_for_padding(net, data, further):
    """As the columns of categories are empty where a series has none."""

    class Tokens(net):
        def __init__(self):
            super().__init__()
            self.first = nn.EmbeddingBag(9, 32, padding_idx=0)

        def forward(self, batch):
            return self.head(torch.relu(self.first(batch[0])))

        def loss(self, batch):
            return nn.functional.cross_entropy(self(batch), batch[1])

    lengths = torch.arange(64) % 6 + 1
    tokens = torch.randint(1, 9, (64, 6), generator=torch.Generator().manual_seed(0))
    tokens[torch.arange(6) >= lengths[:, None]] = 0
    stored = TensorDataset(tokens, tokens[:, 0] % 4, further, torch.zeros(64, 6, 2))
    verdict = check(Tokens(), loaders={"train_dataloaders": DataLoader(stored, 16)}, items=["trace"])["trace"]
    assert verdict.error is None


@pytest.mark.parametrize("cut", [True, False])
def test_series_that_the_steps_cut_in_time_are_no_samples_that_are_shared(net, cut):
    """Both loaders give the same series, whole; validation takes what comes after the part that is learned."""

    class Forecast(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 1)

        def loss(self, batch):
            (series,) = batch
            first = 8 if cut and not self.training else 0
            window = series[:, first : first + 9]
            return nn.functional.mse_loss(self(window[:, :8]), window[:, 8:])

    def loader():
        series = torch.randn(64, 17, generator=torch.Generator().manual_seed(0))
        return DataLoader(TensorDataset(series.cumsum(1) / 4), 16)

    loaders = {"train_dataloaders": loader(), "val_dataloaders": loader()}
    verdict = check(Forecast(), loaders=loaders, items=["limit_batches"])["limit_batches"]
    assert ("data/shared-samples" in [finding.rule for finding in verdict.findings]) is not cut


def test_samples_that_no_collate_function_has_stacked_are_not_moved_along_their_features(net):
    class Stacks(net):
        def loss(self, batch):
            return super().loss([torch.stack(part) for part in zip(*batch, strict=True)])

    inputs, labels = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 4
    loader = DataLoader(TensorDataset(inputs, labels), 8, collate_fn=list)
    verdict = check(Stacks(), loaders={"train_dataloaders": loader}, items=["trace"])["trace"]
    assert (verdict.status, verdict.findings) == ("passed", [])


def test_layers_that_are_scripted_take_no_hooks_and_are_passed_by(net, data):
    class Scripted(net):
        def __init__(self):
            super().__init__()
            self.first = torch.jit.script(nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32)))

    items = [item for item in ORDER if item not in ("config", "paths", "distributed", "breakpoint", "watch")]
    results = check(Scripted, data(), items=items)
    assert [(each.item, each.error) for each in results.verdicts if each.error] == []
    assert results.passed, results


def test_closure_that_an_optimizer_calls_several_times_discards_no_gradients(net, data):
    class Searching(net):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3, line_search_fn="strong_wolfe")

    torch.manual_seed(0)  # of some initial weights a search in single batches goes too far
    verdict = check(Searching(), data(), items=["gradients"])["gradients"]
    assert (verdict.status, verdict.findings) == ("passed", [])


def test_view_that_autograd_refuses_to_look_at_is_no_graph_that_is_kept(net, data):
    class Normed(net):
        def __init__(self):
            super().__init__()
            self.first = nn.utils.parametrizations.weight_norm(self.first)
            self.head = nn.utils.parametrizations.spectral_norm(self.head)

    verdict = check(Normed(), data(), items=["memory"])["memory"]
    assert verdict.error is None


class Mapped(nn.Module):
    """Calls a layer for one sample at a time, by `torch.vmap`."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 32)

    def forward(self, inputs):
        return torch.vmap(self.layer)(inputs)


def lazy():
    return nn.Sequential(nn.LazyLinear(32), nn.LazyBatchNorm1d())


@pytest.mark.parametrize("first", [Mapped, lazy])
def test_layers_whose_values_cannot_be_looked_at_end_no_item(net, data, first):
    class Unseen(net):
        def __init__(self):
            super().__init__()
            self.first = first()

    results = check(Unseen, data(), items=["trace", "anomaly", "overflow", "memory", "gradients", "overfit"])
    assert [(each.item, each.error, each.findings) for each in results.verdicts if each.error or each.findings] == []


def by_func(forward, inputs):
    return torch.vmap(torch.func.jacrev(forward))(inputs)


def one_by_one(forward, inputs):
    return torch.stack([torch.func.jacrev(forward)(each) for each in inputs])


def by_grad(forward, inputs):
    return torch.func.grad(lambda each: forward(each).sum())(inputs)


def vectorized(forward, inputs):
    return torch.autograd.functional.jacobian(forward, inputs[0], create_graph=True, vectorize=True)


@pytest.mark.parametrize("slopes", [by_func, one_by_one, by_grad, vectorized])
@pytest.mark.parametrize("item", ["trace", "device", "gradients", "anomaly", "gradcheck"])
def test_step_that_takes_slopes_of_its_network_by_torch_func_ends_no_item(net, data, item, slopes):
    class Sloped(net):
        def loss(self, batch):
            return super().loss(batch) + 1e-3 * slopes(self.forward, batch[0]).square().mean()

    verdict = check(Sloped(), data(), items=[item])[item]
    is_skipped = item == "gradcheck" and slopes is not vectorized
    assert (verdict.status, verdict.error) == ("skipped" if is_skipped else "passed", None), verdict
    if is_skipped:
        assert "torch.func" in verdict.skipped


def test_class_of_numbers_that_a_dataset_keeps_is_no_column(net, data):
    class Typed(TensorDataset):
        dtype = None

    class Converted(data):
        def train_dataloader(self):
            loader = super().train_dataloader()
            dataset = Typed(*loader.dataset.tensors)
            dataset.dtype = np.float32
            return DataLoader(dataset, 16, shuffle=True)

    assert check(net(), Converted(), items=["limit_batches"])["limit_batches"].error is None


def test_test_set_that_differs_beside_one_that_does_not_is_meant_so(net, data):
    class Net(net):
        def test_step(self, batch):
            self.log("test/loss", self.loss(batch))

    class Tested(data):
        far = (0.0, 5.0)  # what is added to the inputs of each

        def test_dataloader(self):
            inputs, labels = super().val_dataloader().dataset.tensors
            return [DataLoader(TensorDataset(inputs + shift, labels), 16) for shift in self.far]

    class Scaled(Tested):
        far = (5.0,)

    rule = "data/splits-scaled-differently"
    for kind, severity in ((Tested, "remark"), (Scaled, "failed")):
        found = check(Net(), kind(), items=["limit_batches"])["limit_batches"].findings
        assert [each.severity for each in found if each.rule == rule] == [severity]


@pytest.mark.parametrize("item", ["device", "gradcheck", "learning"])
def test_lazy_layers_are_looked_at_once_a_batch_has_given_them_their_numbers(net, data, item):
    """Before that, torch itself copies no lazy norm, and `learning` trains copies."""

    class Waiting(net):
        def __init__(self):
            super().__init__()
            self.first = lazy()

    results = check(Waiting, data(), items=[item])
    assert (results[item].status, results[item].error) == ("passed", None), results


def test_lazy_layer_that_is_never_called_breaks_no_item(net, data, monkeypatch):
    class Waiting(net):
        def __init__(self):
            super().__init__()
            self.first, self.never = nn.LazyLinear(32), nn.LazyLinear(4)

    monkeypatch.setattr(Repetition, "current", Repetition(timeout=0, repeated=False))  # as a command leaves it
    results = check(Waiting, data())
    assert [each for each in results.verdicts if each.error or "uninitialized" in str(each.skipped)] == []
    assert results["learning"].status == results["device"].status == "passed"


def test_copy_of_a_module_of_lightning_cli_has_an_optimizer_of_its_own(net, data):
    """LightningCLI puts a method into the module that holds the optimizer, made of the module's parameters."""

    def configure(module, optimizer, lr_scheduler):
        return [optimizer], [lr_scheduler]

    module = net()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    method = update_wrapper(partial(configure, optimizer=optimizer, lr_scheduler=schedule), configure)
    module.configure_optimizers = types.MethodType(method, module)
    before = [weight.detach().clone() for weight in module.parameters()]
    results = check(module, data(), items=["gradients", "overfit", "learning"])
    assert [each.status for each in results.verdicts] == ["passed"] * 3, results
    assert all(map(torch.equal, module.parameters(), before))


def test_what_a_step_collects_is_gone_when_an_item_has_run_it_once_more(net):
    class Collecting(net):
        def __init__(self):
            super().__init__()
            self.kept = {"train": [], "last": deque(maxlen=3)}

        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            self.kept["train"].append(loss)
            self.kept["last"].append({"loss": loss})
            return loss

    module, batch = Collecting(), [torch.randn(4, 8), torch.arange(4)]
    module.trainer = Trainer(logger=False)
    module.log = module.log_dict = ignore
    for around in (collecting_nothing, unchanged):
        call_step(module, "training_step", batch)
        before = [*module.kept["train"]], [*module.kept["last"]]
        with around(module):
            for _ in range(4):
                call_step(module, "training_step", batch)
        assert ([*module.kept["train"]], [*module.kept["last"]]) == before


@pytest.mark.parametrize("one", [torch.arange(8).reshape(4, 2)[:1, 1], torch.ones(1, dtype=torch.float8_e4m3fn)])
def test_number_of_any_stride_and_type_has_bytes(one):
    assert len(bytes_in(one)) == one.element_size()
    assert digest(one)


@pytest.mark.parametrize("target", ["binary", "grey"])
def test_pixels_rounded_for_a_network_that_gives_them_back_have_lost_nothing_that_was_meant(net, target):
    """A Bernoulli likelihood is of yes and no; one that compares with the shades has lost them."""

    class Restores(net):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(256, 32), nn.Linear(32, 256)

        def loss(self, batch):
            grey = batch[0] / 255
            binary = (grey > 0.5).float() if target == "binary" else (batch[0] // 255).float()
            target_of = {"binary": binary, "grey": grey}
            return nn.functional.binary_cross_entropy_with_logits(self(binary), target_of[target])

    stored = torch.randint(256, (64, 256), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    loaders = {"train_dataloaders": DataLoader(TensorDataset(stored), 16, shuffle=True)}
    verdict = check(Restores(), loaders=loaders, items=["limit_batches"])["limit_batches"]
    assert ("data/levels-lost" in [finding.rule for finding in verdict.findings]) is (target == "grey")


def test_loaders_that_the_project_has_combined_itself_give_the_batches_that_its_steps_expect(net, data):
    class Named(net):
        def loss(self, batch):
            return super().loss(batch["labelled"] if self.training else batch)

    def combined(loader):
        return lightning.CombinedLoader({"labelled": loader, "further": loader}, "max_size_cycle")

    loaders = {"train_dataloaders": combined(data().train_dataloader()), "val_dataloaders": data().train_dataloader()}
    verdicts = check(Named(), loaders=loaders, items=["overfit", "memory", "learning"]).verdicts
    assert [(verdict.status, verdict.error) for verdict in verdicts] == [("passed", None)] * 3


@pytest.mark.parametrize("pixels", [False, True])
def test_metric_that_one_label_leaves_undefined_is_not_judged_by_one_batch(net, data, pixels):
    """As AUROC is of the first samples of a test set that is read class by class, or of pixels without a defect."""

    class Ranked(net):
        def test_step(self, batch):
            scores, wanted = self(batch[0])[:, 1], (batch[1].amax((1, 2)) if pixels else batch[1]) == 1
            self.log("test/auroc", (scores[wanted][:, None] > scores[~wanted]).float().mean())

    class Sorted(data):
        def test_dataloader(self):
            labels = torch.arange(16) // 8
            masks = labels[:, None, None] * torch.ones(16, 4, 4)
            return DataLoader(TensorDataset(torch.randn(16, 8), masks if pixels else labels), 8)

    verdict = check(Ranked(), Sorted(), items=["fast_dev_run"])["fast_dev_run"]
    assert verdict.status == "passed", verdict.findings


def test_term_at_its_floor_has_no_gradient_until_it_rises(net, data):
    """As a KL divergence below its free bits."""

    class Floored(net):
        def __init__(self):
            super().__init__()
            self.prior = nn.Linear(8, 4)

        def training_step(self, batch, batch_idx):
            term = self.prior(batch[0]).square().mean()
            return self.loss(batch) + term.clamp(min=100.0)

    verdict = check(Floored(), data(), items=["trace"])["trace"]
    assert verdict.status == "passed", (verdict.findings, verdict.error)


def test_batch_of_an_object_is_given_to_each_step_as_it_was_loaded(net, data):
    """A network may leave its answers in there."""

    class Batch:
        def __init__(self, numbers, labels):
            self.tensors = {"numbers": numbers, "labels": labels}

    class Leaving(net):
        def transfer_batch_to_device(self, batch, device, dataloader_idx):
            return batch

        def training_step(self, batch, batch_idx):
            tensors = batch.tensors
            tensors["numbers"] = tensors.get("hidden", tensors["numbers"]) * self.head.bias.mean().exp()
            tensors["hidden"] = tensors["numbers"]
            return self.loss((tensors["numbers"], tensors["labels"]))

    class Objects(data):
        def train_dataloader(self):
            def stacked(pairs):
                return Batch(*map(torch.stack, zip(*pairs, strict=True)))

            return DataLoader(super().train_dataloader().dataset, 16, collate_fn=stacked)

    results = check(Leaving(), Objects(), items=["overfit", "learning"])
    assert results["overfit"].error is None, results["overfit"]
    assert "RuntimeError" not in f"{results['learning'].skipped}", results["learning"]


def test_bias_of_an_energy_of_which_only_the_slope_is_used_is_remarked(net, data):
    class Forces(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 1)

        def loss(self, batch):
            with torch.enable_grad():
                inputs = batch[0].detach().requires_grad_()
                energy = self.head(torch.tanh(self.first(inputs)))
                (forces,) = torch.autograd.grad(energy.sum(), inputs, create_graph=True)
            return (forces - 1).square().mean()

    findings = check(Forces(), data(), items=["gradients"])["gradients"].findings
    assert [(each.rule, each.severity) for each in findings if each.rule == "gradients/unused"] == [
        ("gradients/unused", "remark")
    ]


def test_loss_that_follows_what_the_step_itself_moves_is_not_to_fall(net, data):
    """As that of a student whose targets are made by a teacher, with a centre that moves."""

    class Moving(net):
        def __init__(self):
            super().__init__()
            self.register_buffer("height", torch.ones(()))

        def training_step(self, batch, batch_idx):
            self.height.mul_(1.05)
            return 0.01 * self.loss(batch) + self.height.clone()

    verdict = check(Moving(), data(), items=["learning"])["learning"]
    assert "learning/loss-does-not-fall" not in [each.rule for each in verdict.findings], verdict
    assert "height" in verdict.unjudged["learning/loss-does-not-fall"]


@pytest.mark.parametrize(("trainer", "found"), [({}, False), ({"max_epochs": 3}, False), ({"max_epochs": 30}, True)])
def test_schedule_is_held_against_no_length_that_nobody_has_given(net, data, trainer, found):
    class Scheduled(net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)]

    verdict = check(Scheduled(), data(), items=["learning"], trainer=trainer)["learning"]
    assert ("schedule/rises-again" in [finding.rule for finding in verdict.findings]) == found
    assert ("max_epochs" in verdict.unjudged.get("schedule/rises-again", "")) == (not trainer)


def test_weight_that_is_limited_through_a_view_ends_no_item(net, data):
    class Limited(net):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(8, 1)

        def training_step(self, batch, batch_idx):
            with torch.no_grad():
                groups = self.first.weight.view(4, -1, 8)
                self.first.weight.copy_(
                    (groups / groups.norm(dim=1, keepdim=True).clamp(min=1)).view_as(self.first.weight)
                )
            return super().training_step(batch, batch_idx)

    verdict = check(Limited(), data(), items=["gradients"])["gradients"]
    assert (verdict.error, [each.rule for each in verdict.findings]) == (None, ["gradients/unused"])
