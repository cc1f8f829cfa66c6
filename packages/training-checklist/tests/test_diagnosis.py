"""Every kind of exception is made for real, and must be told with its place, its numbers and a next step."""

import csv
import inspect
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from urllib.error import URLError

import pytest
import pytorch_lightning
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.data import _update_dataloader
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset
from torchmetrics import MeanAbsoluteError
from training_checklist.diagnosis.diagnose import diagnose, print_traceback
from training_checklist.engines.own_code import pass_on
from training_checklist.finding import FAILED, Finding, Fix, Place
from training_checklist.hydra_callbacks.exceptions import print_panel
from training_config.errors import ConfigError
from training_runs.errors import JobError

MISFIT = ("model=mlp", f"model.net._target_={__name__}.narrow")


def told(finding: Finding) -> str:
    """What to do next, in words."""
    fix = finding.fix
    return "; ".join([*fix.overrides, *([fix.advice] if fix.advice else []), *(f"+debug={item}" for item in fix.items)])


def diagnosed(function, *arguments, **options) -> Finding:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of whatever kind: the finding is judged
        function(*arguments, **options)
    finding = diagnose(raised.value)
    assert finding.severity == FAILED
    assert all((finding.what, finding.where, finding.why, told(finding)))
    assert "diagnosis itself" not in finding.why
    return finding


def narrow(image_shape: Any, **options: Any) -> nn.Module:
    """Return a network for images of 20 by 20; those of the data have 28 by 28."""
    from digit_classifier.models.mlp import MLP

    return MLP([1, 20, 20], **options)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(1)


class Net(nn.Module):
    def __init__(self, features: int = 4 * 36, last: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.fc = nn.Linear(features, 10)
        self.last = last or nn.Identity()
        self.tail = [nn.Linear(10, 10)]

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(x)
        return self.last(self.fc(h))


class Lit(LightningModule):
    """A classifier of which each test spoils one part."""

    def __init__(self, net: nn.Module | None = None, loss=None, criterion: nn.Module | None = None) -> None:
        super().__init__()
        self.net = Net() if net is None else net
        self.criterion = nn.CrossEntropyLoss() if criterion is None else criterion
        self.loss = loss

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = self.criterion(logits, y)
        self.log("train/loss", loss)
        return loss if self.loss is None else self.loss(self, logits, loss)

    def validation_step(self, batch, batch_idx):
        self.log("val/acc", 0.5)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Samples(Dataset):
    def __init__(self, label=lambda index: index % 10, image=lambda index: torch.rand(1, 8, 8), size: int = 8) -> None:
        self.label, self.image, self.size = label, image, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index):
        return self.image(index), self.label(index)


def fit(model: LightningModule, data: Dataset | None = None, **options) -> None:
    settings = {"logger": False, "enable_checkpointing": False, "max_epochs": 1, "enable_model_summary": False}
    trainer = Trainer(accelerator="cpu", enable_progress_bar=False, **settings | options)
    loader = DataLoader(data or Samples(), batch_size=4)
    trainer.fit(model, loader, loader)


def test_linear_of_the_wrong_width_is_named_with_what_feeds_it():
    finding = diagnosed(fit, Lit(Net(features=100)))
    assert finding.where.startswith("net.fc (Linear), ")
    assert re.search(r"test_diagnosis\.py:\d+ in forward: return self\.last\(self\.fc\(h\)\), batch 0", finding.where)
    assert finding.why == "net.fc expects 100 features, gets 144 from net.encoder"
    assert re.search(r"in_features=144 where net\.fc is made \(\S*test_diagnosis\.py:\d+\)", told(finding))
    assert "x (4, 1, 8, 8) float32 cpu" in finding.what


def test_layer_is_made_where_the_class_that_was_extended_makes_it():
    class Wider(Net):
        def __init__(self) -> None:
            super().__init__(features=100)

    _, first = inspect.getsourcelines(Net.__init__)
    made = re.search(r"where net\.fc is made \(\S*test_diagnosis\.py:(\d+)\)", told(diagnosed(fit, Lit(Wider()))))
    assert first < int(made[1]) < first + 10


def test_batch_that_was_not_unpacked_is_named_with_its_step():
    class Whole(Lit):
        def validation_step(self, batch, batch_idx):
            self.net(batch)

    finding = diagnosed(fit, Whole())
    assert "in validation_step: self.net(batch), batch 0, given to net.encoder" in finding.where
    assert finding.place.batch == 0
    assert "takes a tensor, gets a list: most likely the whole batch" in finding.why


def test_fraction_for_a_size_is_told_with_the_function_that_made_it():
    class Split:
        def setup(self):
            sizes = self.sizes(599)
            torch.randperm(sum(sizes))

        def sizes(self, samples):
            return [samples // 2, samples - samples * 0.3]

    finding = diagnosed(Split().setup)
    assert finding.rule == "crash/size-is-fraction"
    assert "sizes[1] is 419.3" in finding.why
    assert finding.where.endswith("Split.sizes")


def test_inference_tensor_is_told_with_the_function_that_made_it():
    class Policy:
        def step(self):
            states, _ = self.tried()
            nn.Linear(4, 2)(states).sum().backward()

        @torch.inference_mode()
        def tried(self):
            return torch.rand(3, 4), 1

    finding = diagnosed(Policy().step)
    assert finding.rule == "crash/made-in-inference-mode"
    assert finding.why.startswith("states was made")
    assert finding.where.endswith("Policy.tried")


def test_neighbour_in_a_sequential_is_what_feeds_a_layer():
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(5, 2))
    finding = diagnosed(net, torch.rand(2, 4))
    assert finding.where.startswith("2 (Linear)")
    assert finding.why == "2 expects 5 features, gets 3 from 1 (ReLU)"


def test_images_that_were_not_flattened_are_said_to_be_so():
    finding = diagnosed(nn.Sequential(nn.Linear(64, 3)), torch.rand(2, 8, 8))
    assert "(2, 8, 8) is not flattened" in finding.why
    assert "flatten(1)" in told(finding)


@pytest.mark.parametrize(
    ("layer", "shape", "why"),
    [
        (nn.Conv2d(3, 4, 3), (2, 1, 8, 8), "expects 3 channels, gets 1"),
        (nn.Conv2d(3, 4, 3), (2, 8, 8, 3), "the last dimension has 3"),
        (nn.Conv2d(1, 4, 3), (2, 64), r"expects a 3D .* or 4D .* input, gets one of shape \(2, 64\)"),
        (nn.Conv2d(1, 4, 9), (2, 1, 8, 8), "smaller than the kernel of 0"),
        (nn.MaxPool2d(9), (2, 1, 8, 8), "smaller than the kernel of 0"),
        (nn.BatchNorm2d(4), (2, 3, 8, 8), "expects 4 channels, gets 3"),
        (nn.BatchNorm2d(4), (2, 4), "expects a 4D input, gets 2D"),
        (nn.BatchNorm1d(4), (1, 4), "this batch has one sample"),
        (nn.LayerNorm(4), (2, 3), "expects 4 values in the last dimensions, gets 3"),
        (nn.LSTM(4, 5), (2, 3, 6), "expects 4 features, gets 6"),
    ],
)
def test_layer_that_refuses_its_input_is_told_with_both_sizes(layer, shape, why):
    finding = diagnosed(nn.Sequential(layer), torch.rand(shape))
    assert finding.where.startswith(f"0 ({type(layer).__name__})")
    assert re.search(why, finding.why)


def test_index_outside_of_an_embedding_is_told_with_its_range():
    finding = diagnosed(nn.Sequential(nn.Embedding(5, 2)), torch.tensor([1, 7]))
    assert finding.why == "0 knows indices 0 to 4, gets 1 to 7"


def test_label_outside_of_the_classes_is_told_with_both_ranges():
    finding = diagnosed(fit, Lit(), Samples(label=lambda index: index + 9))
    assert finding.where.startswith("criterion (CrossEntropyLoss), ")
    assert finding.why.startswith("label 10 in y, but the network has 10 classes, labels 0 to 9")
    assert finding.why.endswith("this batch has labels from 9 to 12")


def test_label_counted_from_one_is_recognised():
    finding = diagnosed(fit, Lit(), Samples(label=lambda index: [1, 10][index % 2]))
    assert "subtract 1" in told(finding)


@pytest.mark.parametrize(
    ("criterion", "logits", "target", "why", "fix"),
    [
        (nn.CrossEntropyLoss, (4, 3), torch.zeros(4), "arguments[1] is float", ".long()"),
        (nn.CrossEntropyLoss, (4, 3), torch.zeros(5).long(), "4 rows of logits for 5 labels", "flatten"),
        (nn.CrossEntropyLoss, (4, 3), torch.zeros(4, 1).long(), "one class index a sample", "squeeze(-1)"),
        (nn.CrossEntropyLoss, (4, 3), torch.zeros(4, 3).long(), "read as probabilities", "argmax(1)"),
        (nn.CrossEntropyLoss, (4, 7, 3), torch.zeros(4, 7).long(), "classes in dimension 1", "movedim(-1, 1)"),
        (nn.BCEWithLogitsLoss, (4, 1), torch.zeros(4), "logits [4, 1], labels [4]", "logits.squeeze(-1)"),
        (nn.BCELoss, (4, 1), torch.zeros(4), "logits [4, 1], labels [4]", "logits.squeeze(-1)"),
        (nn.BCEWithLogitsLoss, (4,), torch.zeros(4).long(), "is an integer", ".float()"),
        (nn.BCELoss, (4,), torch.zeros(4), "takes probabilities", "BCEWithLogitsLoss"),
    ],
)
def test_target_that_does_not_fit_the_criterion_is_told_with_what_would(criterion, logits, target, why, fix):
    finding = diagnosed(criterion(), torch.full(logits, 2.0), target)
    assert why in finding.why
    assert fix in told(finding)


@pytest.mark.parametrize(("predictions", "targets", "name"), [((4, 1), (4,), "predictions"), ((4,), (4, 1), "targets")])
def test_metric_of_a_column_and_a_row_is_told_which_to_squeeze(predictions, targets, name):
    finding = diagnosed(MeanAbsoluteError().update, torch.zeros(predictions), torch.zeros(targets))
    assert finding.rule == "crash/metric-shapes"
    assert told(finding).startswith(f"{name}.squeeze(-1) before the metric")


def test_argument_given_by_place_and_by_name_is_named():
    finding = diagnosed(DataLoader, [1], 4, batch_size=4)
    assert finding.why == "DataLoader is given batch_size twice, once by its place and once by its name"
    assert told(finding).startswith("keep batch_size=... and take out the other")


def test_argument_that_a_library_takes_no_more_is_told_with_its_version_and_what_is_near():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    finding = diagnosed(lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, verbose=True, patiens=3))
    assert finding.rule == "crash/unexpected-argument"
    assert finding.why.startswith(f"ReduceLROnPlateau takes no argument verbose in torch {torch.__version__}")
    assert "take verbose out of the call" in told(finding)
    finding = diagnosed(lambda: Encoder(widht=3))
    assert finding.why.startswith("Encoder takes no argument widht")
    assert "take widht out of the call, or have Encoder take it" in told(finding)


def test_size_mismatch_in_an_expression_names_the_expression():
    a, b = torch.rand(4, 3), torch.rand(4, 5)
    finding = diagnosed(lambda: a * 2 + b)
    assert finding.why == "sizes 3 and 5 in dimension 1 do not go together in a * 2 + b"


def test_branches_of_other_sizes_are_told_with_both():
    branches = torch.rand(2, 3, 8, 8), torch.rand(2, 3, 2, 8)
    finding = diagnosed(lambda: torch.cat(branches, dim=1))
    assert finding.rule == "crash/joined"
    assert "the first has 8, and number 1 (from 0) has 2" in finding.why


def test_odd_size_that_a_network_halves_and_doubles_is_told_with_its_input():
    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)

        def forward(self, x):
            return torch.cat([x, self.up(self.down(x))], dim=1)

    finding = diagnosed(Skipping(), torch.rand(2, 3, 15, 15))
    assert finding.rule == "crash/halved-and-doubled"
    assert "15 was halved to 7 and doubled to 14" in finding.why
    assert "(2, 3, 15, 15)" in finding.why


def test_call_that_the_checklist_passes_on_is_not_said_to_raise():
    finding = diagnosed(lambda: pass_on(torch.linalg.cholesky, torch.zeros(2, 2)))
    assert finding.rule == "crash/unknown"
    assert "own_code" not in finding.why


def test_closure_that_a_hook_does_not_call():
    class Alone(Lit):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer.step()

    finding = diagnosed(fit, Alone(), Samples())
    assert (finding.rule, finding.place.function) == ("crash/closure-not-called", "Alone.optimizer_step")


def test_step_that_the_script_needs_and_the_module_lacks():
    trainer = Trainer(fast_dev_run=True, accelerator="cpu", logger=False, enable_model_summary=False)
    finding = diagnosed(trainer.test, Lit(), DataLoader(Samples()))
    assert finding.rule == "crash/step-missing"
    assert finding.why == "Lit has no test_step, and the script calls trainer.test"


@pytest.mark.parametrize(("rank", "rule"), [("1", "crash/made-by-another-rank"), ("0", "crash/unknown")])
def test_folder_that_every_rank_makes(tmp_path, monkeypatch, rank, rule):
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert diagnosed(tmp_path.mkdir).rule == rule


def test_hook_that_takes_other_arguments_is_told_those_that_lightning_gives():
    class Images(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx):
            pass

    finding = diagnosed(fit, Lit(), callbacks=[Images()])
    assert (finding.rule, finding.place.function.rpartition(".")[2]) == ("crash/hook-arguments", "on_train_batch_end")
    assert told(finding).startswith("def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx)")


def test_exception_without_a_known_cause_tells_what_it_was_raised_from():
    def wrapped():
        try:
            raise LookupError("no such place")
        except LookupError as error:
            raise RuntimeError("applying a transform") from error

    finding = diagnosed(wrapped)
    assert finding.what == "RuntimeError: applying a transform\nraised from LookupError: no such place"


def test_exception_without_a_known_cause_tells_the_line_of_the_library_that_raises_it():
    finding = diagnosed(csv.DictWriter, None, None, extrasaction="odd")
    assert re.search(r"which csv raises in its line \d+ \(__init__\)", finding.why), finding.why


def test_loader_of_nothing_is_a_matter_of_setup():
    class Unmade(LightningDataModule):
        def setup(self, stage):
            self.samples = None

        def train_dataloader(self):
            return DataLoader(self.samples)

    trainer = Trainer(accelerator="cpu", enable_progress_bar=False, logger=False, enable_checkpointing=False)
    finding = diagnosed(trainer.fit, Lit(), datamodule=Unmade())
    assert (finding.rule, finding.place.function.rpartition(".")[2]) == ("crash/no-dataset", "setup")


def test_samples_of_different_shapes_are_a_matter_of_the_dataset():
    finding = diagnosed(fit, Lit(), Samples(image=lambda index: torch.rand(1, 8, 8 + index)))
    assert "samples of different shapes" in finding.why
    assert "collate_fn" in told(finding)


def test_tensor_on_the_meta_device_is_told_from_its_device():
    finding = diagnosed(nn.Sequential(nn.Linear(3, 3, device="meta")), torch.rand(2, 3))
    assert "meta device" in finding.why
    assert "to_empty" in told(finding)


def test_tensor_made_on_the_default_device_is_named_by_its_line():
    class Masked(nn.Module):
        def forward(self, x):
            return x * torch.ones(4)

    with FakeTensorMode():  # an accelerator that this machine need not have
        x = torch.empty(4, device="cuda")
        finding = diagnosed(nn.Sequential(Masked()), x)
    assert finding.where.startswith("0 (Masked), ")
    assert finding.why == "torch.ones(...) makes its tensor on the CPU"
    assert told(finding) == "torch.ones(..., device=x.device)"


def test_tensor_left_behind_on_the_cpu_is_named():
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = torch.zeros(4)

        def forward(self, x):
            shift = self.shift
            return x + shift

    with FakeTensorMode():
        x = torch.empty(4, device="cuda")
        finding = diagnosed(nn.Sequential(Shifted()), x)
    assert finding.why == "shift on the CPU, the rest on cuda:0"
    assert "register_buffer" in told(finding)


def test_module_kept_in_a_list_is_named_as_not_registered():
    net = Net()
    net.tail[0].to("meta")
    net.forward = lambda x: net.tail[0](net.fc(net.encoder(x)))
    finding = diagnosed(fit, Lit(net))
    assert finding.where.startswith("net.tail[0] (Linear)")
    assert "net.tail[0] is not registered" in finding.why
    assert "ModuleList" in told(finding)


@pytest.mark.parametrize(
    ("dtype", "why"),
    [(torch.float64, "NumPy"), (torch.int64, "gets integers"), (torch.bfloat16, "16-bit and a 32-bit")],
)
def test_dtype_that_a_layer_does_not_take_is_told_with_its_likely_source(dtype, why):
    finding = diagnosed(nn.Sequential(nn.Linear(3, 3)), torch.ones(2, 3).to(dtype))
    assert why in finding.why


def test_dtype_mismatch_under_autocast_names_the_line():
    class Buffered(nn.Module):
        def forward(self, x):
            kept = torch.zeros(4, 10)
            kept[torch.tensor([0, 1])] = x[:2]
            return kept

    finding = diagnosed(fit, Lit(Net(last=Buffered())), precision="bf16-mixed")
    assert finding.where.startswith("net.last (Buffered), ")
    assert "autocast" in finding.why
    assert "kept (4, 10) float32 cpu" in finding.what


def test_out_of_memory_lists_the_remedies_in_order():
    finding = diagnosed(torch.empty, 10**15)
    order = [told(finding).index(word) for word in ("batch", "precision", "checkpointing", "debug=memory")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (lambda lit, logits, loss: logits.sum(1), r"the loss of shape \(4,\)"),
        (lambda lit, logits, loss: loss.detach().requires_grad_(False), "lost its graph"),
        (lambda lit, logits, loss: nn.functional.cross_entropy(logits.data, torch.zeros(4).long()), "lost its graph"),
    ],
)
def test_loss_that_cannot_go_backward_names_the_step_that_made_it(loss, why):
    finding = diagnosed(fit, Lit(loss=loss))
    assert re.search(why, finding.why)
    assert re.match(r"\S*test_diagnosis\.py:\d+ in Lit\.training_step, batch 0, backward of its loss", finding.where)


@pytest.mark.parametrize(
    "take", [lambda loss, place: torch.autograd.grad(loss, place), lambda loss, _: loss.backward()]
)
def test_gradient_that_validation_takes_itself_is_no_loss_of_training(take):
    class Forces(Lit):
        def validation_step(self, batch, batch_idx):
            place = batch[0].requires_grad_()
            take(self.net(place).sum(), place)

    finding = diagnosed(fit, Forces())
    assert "inference mode" in finding.why
    assert "validation_step" in finding.where


def test_frozen_model_is_told_from_a_detached_loss():
    model = Lit()
    model.requires_grad_(False)
    finding = diagnosed(fit, model)
    assert re.match(r"all \d+ parameters are frozen", finding.why)


def overwriting(module: LightningModule, logits: Tensor, loss: Tensor) -> Tensor:
    shares = logits.softmax(1)
    shares[shares < 1e-3] = 0
    return (shares + 1e-3).log().mean()


def test_line_that_overwrites_what_backward_needs_is_named():
    finding = diagnosed(fit, Lit(loss=overwriting))
    assert finding.rule == "crash/modified-in-place"
    assert finding.place.source == "shares[shares < 1e-3] = 0"


def test_in_place_modification_names_the_operation_and_the_suspects():
    finding = diagnosed(fit, Lit(Net(last=nn.Sequential(nn.Sigmoid(), nn.ReLU(inplace=True)))))
    assert "the (4, 10) output of Sigmoid" in finding.why
    assert "inplace=True: net.last.1" in finding.why
    assert "debug=anomaly" in told(finding)


def test_graph_of_an_earlier_step_is_recognised():
    kept = []

    def with_the_last(lit, logits, loss):
        kept.append(loss)
        return sum(kept)

    finding = diagnosed(fit, Lit(loss=with_the_last))
    assert "earlier step" in finding.why
    assert "batch 1" in finding.where


def test_nan_from_anomaly_mode_names_the_line_of_the_forward_operation():
    class Root(nn.Module):
        def forward(self, x):
            return torch.sqrt(x * 0) * 0

    with pytest.warns(UserWarning, match="Error detected in SqrtBackward0"):
        finding = diagnosed(fit, Lit(Net(last=Root())), detect_anomaly=True)
    assert re.search(r"test_diagnosis\.py:\d+ in forward: return torch\.sqrt\(x \* 0\) \* 0", finding.where)
    assert "Sqrt is NaN" in finding.why


def test_exception_of_a_loader_worker_is_placed_in_the_dataset():
    def broken(index):
        raise KeyError("no such image")

    batches = iter(DataLoader(Samples(image=broken), num_workers=1))
    finding = diagnosed(next, batches)
    batches._shutdown_workers()  # the garbage collector would take 5 s for it
    assert re.search(r"test_diagnosis\.py:\d+ in broken: raise KeyError.*DataLoader worker process 0", finding.where)


def test_killed_loader_worker_is_told_with_what_kills_it():
    finding = diagnosed(list, DataLoader(Samples(image=suicide), num_workers=1, timeout=1))
    assert "ended from outside of Python" in finding.why
    assert "num_workers=0" in told(finding)


def test_killed_loader_worker_has_no_traceback_unless_all_is_asked_for(capfd, monkeypatch):
    error = RuntimeError("DataLoader worker (pid 748) is killed by signal: Killed.")
    print_traceback(error)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    print_traceback(error)
    assert "killed by signal" in capfd.readouterr().err


def suicide(index):
    signal.raise_signal(signal.SIGKILL)


def test_missing_compiler_is_told_with_the_key_that_asks_for_it():
    from torch._inductor.cpp_builder import cpp_compiler_search

    finding = diagnosed(cpp_compiler_search, ("/nowhere/g++",))
    assert "torch.compile writes C++ code, and this machine has no compiler" in finding.why
    assert "leave torch.compile out" in told(finding)


@pytest.mark.parametrize(
    ("statement", "why", "fix"),
    [
        ("from torch.nn import Linaer2", f"torch.nn has no Linaer2 in torch {torch.__version__}", "install the torch"),
        ("import torch.metrics", f"torch has no metrics in torch {torch.__version__}", "took the place of metrics"),
        ("from collections import Sequence", "collections has no Sequence in Python 3", "install the Python"),
        ("import not_there", "has a module not_there", "install what provides not_there"),
        (f"from {__name__} import Encodr", f"{__name__} has no Encodr; did you mean Encoder?", "correct the name"),
    ],
)
def test_import_that_fails_is_told_with_what_is_not_there(statement, why, fix):
    finding = diagnosed(exec, statement)
    assert finding.rule == "crash/import-failed"
    assert why in finding.why
    assert fix in told(finding)


def test_package_that_an_exception_names_the_command_for_is_to_be_installed():
    def metric():
        raise ModuleNotFoundError("FID requires Torch-fidelity. Install it by `pip install torchmetrics[image]`.")

    finding = diagnosed(metric)
    assert finding.rule == "crash/import-failed"
    assert "pip install torchmetrics[image]" in told(finding)


def test_missing_login_is_told_with_the_key_that_needs_none():
    def train(cfg):
        raise type("UsageError", (Exception,), {})("No API key configured. Use `wandb login` to log in.")

    finding = diagnosed(train, OmegaConf.create({"logger": {"wandb": {"offline": False}}}))
    assert "logger.wandb.offline=False" in finding.where
    assert told(finding).startswith("logger.wandb.offline=true; wandb login, once")


def test_download_that_fails_is_told_as_one():
    def prepare_data():
        raise URLError("[Errno -2] Name or service not known")

    finding = diagnosed(prepare_data)
    assert "no network, or the address is gone" in finding.why
    assert "where it looks for them" in told(finding)


def test_exception_without_a_traceback_is_placed_where_the_one_that_it_led_to_arose():
    dropped = URLError("[Errno -2] Name or service not known")

    def load():
        raise OSError("no tokenizer") from dropped

    assert diagnosed(load).place.function.endswith("load")


def test_exit_of_a_program_that_has_caught_what_failed_is_that_failure():
    def main():
        try:
            raise URLError("[Errno -2] Name or service not known")
        except Exception:
            sys.exit(1)

    with pytest.raises(SystemExit) as raised:
        main()
    assert diagnose(raised.value).rule == "crash/unreachable"


def test_name_that_a_library_has_no_more_is_of_another_version():
    def annotated():
        return pytorch_lightning.loggers.LightningLoggerBase

    finding = diagnosed(annotated)
    assert "has no LightningLoggerBase in pytorch_lightning" in finding.why
    assert "written for another version" in finding.why


def test_devices_that_a_cpu_has_not_are_told_with_their_key():
    config = OmegaConf.create({"trainer": {"devices": [0]}})
    finding = diagnosed(lambda cfg: Trainer(accelerator="cpu", devices=[*cfg.trainer.devices]), config)
    assert "no numbered devices" in finding.why
    assert told(finding) == "trainer.devices=1"


def test_cuda_that_the_config_asks_for_is_told_with_its_key():
    config = OmegaConf.create({"net": {"device": "cuda"}})
    finding = diagnosed(lambda cfg: torch.zeros(1, device=cfg.net.device), config)
    assert "the config asks for CUDA" in finding.why
    assert told(finding) == "net.device=cpu"


@pytest.mark.parametrize(
    ("config", "fix"),
    [
        ({"trainer": {"accelerator": "gpu"}}, "trainer.accelerator=cpu, or auto; "),
        ({"lr": 0.1}, 'Trainer(accelerator="auto") takes what is there; '),
    ],
)
def test_missing_accelerator_is_told_with_the_key_or_the_argument_that_asks_for_it(config, fix):
    def train(cfg):
        raise type("MisconfigurationException", (Exception,), {})("No supported gpu backend found!")

    finding = diagnosed(train, OmegaConf.create(config))
    assert "has no such accelerator" in finding.why
    assert told(finding).startswith(fix)


def test_empty_dataset_is_told():
    finding = diagnosed(lambda: DataLoader(Samples(size=0), shuffle=True))
    assert "no samples" in finding.why


@pytest.mark.parametrize("callback", [ModelCheckpoint, EarlyStopping])
def test_monitor_that_nothing_logs_names_what_is_logged(callback, tmp_path):
    cfg = OmegaConf.create({"monitor": "val/accuracy", "callbacks": {"best": {"monitor": "${monitor}"}}})

    def train(cfg):
        options = {"dirpath": tmp_path} if callback is ModelCheckpoint else {}
        own = callback(monitor=cfg.callbacks.best.monitor, **options)
        fit(Lit(), callbacks=[own], enable_checkpointing=True, num_sanity_val_steps=0)

    finding = diagnosed(train, cfg)
    assert finding.where == "callbacks.best.monitor=${monitor}, monitor=val/accuracy"
    said, _, logged = finding.why.partition("; logged are ")
    assert said == "nothing logs 'val/accuracy'"
    assert set(logged.split(", ")) == {"train/loss", "val/acc"}
    assert told(finding).startswith("monitor=val/acc,")


def test_monitor_of_another_kind_needs_another_mode(tmp_path):
    cfg = OmegaConf.create({"best": {"monitor": "val/accuracy", "mode": "min"}})

    def train(cfg):
        fit(Lit(), callbacks=[EarlyStopping(**cfg.best)], num_sanity_val_steps=0)

    assert told(diagnosed(train, cfg)).startswith("best.monitor=val/acc best.mode=max, or")


def test_prefix_of_a_checkpoint_is_recognised():
    state = {f"module.{key}": value for key, value in Net().state_dict().items()}
    finding = diagnosed(Net().load_state_dict, state)
    assert finding.why == (
        "the checkpoint's keys have 'module.', which DistributedDataParallel adds; the model's have not"
    )
    assert "key.replace('module.', '', 1)" in told(finding)


def test_prefix_of_a_compiled_part_is_recognised():
    state = {key.replace("fc.", "fc._orig_mod."): value for key, value in Net().state_dict().items()}
    finding = diagnosed(Net().load_state_dict, state)
    assert "the checkpoint's keys have '_orig_mod.', which torch.compile adds" in finding.why


def test_prefix_of_a_wrapped_model_is_recognised():
    finding = diagnosed(nn.ModuleDict({"module": Net()}).load_state_dict, Net().state_dict())
    assert "the model's keys have 'module.'" in finding.why


def test_checkpoint_keys_that_do_not_match_are_named():
    state = Net().state_dict()
    del state["fc.bias"]
    finding = diagnosed(Net(features=100).load_state_dict, state | {"old.weight": torch.zeros(1)})
    assert finding.where == "fc.weight, fc.bias, old.weight"
    assert "fc.weight is (10, 144) in the checkpoint, (10, 100) here" in finding.why
    assert "missing in the checkpoint: fc.bias" in finding.why
    assert "unknown to this model: old.weight" in finding.why


def test_checkpoint_of_another_config_names_the_values_of_then(tmp_path):
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text("model: {features: 144, dropout: 0.1}")
    torch.save(Net().state_dict(), tmp_path / "run" / "best.ckpt")
    cfg = OmegaConf.create({"model": {"features": 100, "dropout": 0.1}, "ckpt_path": f"{tmp_path}/run/best.ckpt"})
    finding = diagnosed(lambda cfg: Net(cfg.model.features).load_state_dict(torch.load(cfg.ckpt_path)), cfg)
    assert told(finding) == "model.features=144; as when it was saved"


def test_weights_cannot_be_resumed_from(tmp_path):
    model = Lit()
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=tmp_path)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    loader = DataLoader(Samples(), batch_size=4)
    finding = diagnosed(trainer.fit, model, loader, ckpt_path=tmp_path / "weights.ckpt")
    assert "nothing to continue from" in finding.why
    assert "save_weights_only=false" in told(finding)


@pytest.mark.parametrize(
    ("node", "where", "why", "fix"),
    [
        ({"_target_": "torch.nn.Linaer"}, "net._target_", "torch.nn has no 'Linaer'; did you mean Linear", "_target_="),
        ({"_target_": "nowhere.Net"}, "net._target_", "there is no module 'nowhere'; is it installed?", "_target_="),
        (
            {"_target_": "torch.nn.Linear", "in_features": 1, "out_feature": 2},
            "net.out_feature",
            "takes no argument out_feature; did you mean out_features",
            "~net.out_feature; +net.out_features=",
        ),
        (  # its neighbour is there already
            {"_target_": "torch.nn.Linear", "in_features": 1, "out_features": 2, "out_feature": None},
            "net.out_feature",
            "takes no argument out_feature; it takes",
            "out_feature",
        ),
        ({"_target_": "torch.nn.Linear", "in_features": 1}, "net", "needs out_features", "+net.out_features=..."),
        ({"_target_": "torch.optim.SGD"}, "net", "params from the model", "+net._partial_=true"),
        ({"_target_": "torch.nn.Linear", "in_features": "???"}, "net.in_features", "is ???", "net.in_features=..."),
    ],
)
def test_target_that_cannot_be_called_is_told_with_its_key(node, where, why, fix):
    cfg = OmegaConf.create({"net": node})
    finding = diagnosed(lambda cfg: instantiate(cfg.net), cfg)
    assert why in finding.why
    assert fix in told(finding)
    assert finding.place.key == where


def test_argument_that_code_adds_to_a_target_is_no_key_of_the_config():
    cfg = OmegaConf.create({"net": {"_target_": "torch.nn.Linear", "in_features": 1, "out_features": 2}})
    finding = diagnosed(lambda cfg: instantiate(cfg.net, depth=3), cfg)
    assert "takes no argument depth" in finding.why
    assert told(finding).startswith("take it out of the call of instantiate(...): the config has no net.depth")
    assert not finding.place.key


def test_exception_inside_of_a_target_is_diagnosed_itself():
    cfg = OmegaConf.create({"callback": {"_target_": f"{__name__}.Broken"}})
    finding = diagnosed(lambda cfg: instantiate(cfg.callback), cfg)
    assert finding.what.startswith("ZeroDivisionError")
    assert finding.where.endswith("self.ratio = 1 / 0, built for config key callback")


class Broken:
    def __init__(self) -> None:
        self.ratio = 1 / 0


def test_number_that_yaml_reads_as_text_is_told_with_its_key():
    cfg = OmegaConf.create({"optimizer": {"_target_": "torch.optim.AdamW", "_partial_": True, "lr": "1e-3"}})
    finding = diagnosed(lambda cfg: instantiate(cfg.optimizer)(nn.Linear(1, 1).parameters()), cfg)
    assert finding.place.key == "optimizer.lr"
    assert told(finding) == "optimizer.lr=0.001"


def test_key_that_the_config_lacks_is_told_with_the_nearest():
    cfg = OmegaConf.create({"data": {"batch_size": 1}})
    OmegaConf.set_struct(cfg, True)
    assert "did you mean data.batch_size" in diagnosed(lambda cfg: cfg.data.batch_sise, cfg).why


def test_composition_errors_name_the_nearest_option(root):
    def composed():
        with initialize_config_dir(str(root / "conf"), version_base="1.3"):
            compose("train", overrides=["model=cnnn"])

    assert diagnosed(composed).why == "there is no model/cnnn; did you mean cnn?"


def test_gloo_time_out_and_lost_peer_point_at_the_other_ranks():
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    store.set_timeout(timedelta(milliseconds=10))
    finding = diagnosed(store.get, "never set")
    assert "did not all arrive" in finding.why
    assert "debug=distributed" in told(finding)


def test_experiment_of_another_process_than_the_first_is_told_to_be_a_stand_in(tmp_path):
    logger = CSVLogger(tmp_path)
    with patch.object(rank_zero_only, "rank", 1):
        finding = diagnosed(lambda: logger.experiment.config.update({"lr": 0.1}))
    assert "in the first process alone" in finding.why
    assert "@rank_zero_only" in told(finding)


def test_unused_parameters_under_ddp_are_named():
    class Unused(Lit):
        def __init__(self) -> None:
            super().__init__()
            self.spare = nn.Linear(2, 2)

    with patch.dict(os.environ):  # where Lightning leaves the rank, and commands of later tests would be ranks
        try:
            finding = diagnosed(fit, Unused(), strategy="ddp", devices=1)
        finally:
            torch.distributed.destroy_process_group()
    assert finding.where == "spare.weight, spare.bias"
    assert "took no part in the loss" in finding.why
    assert "ddp_find_unused_parameters_true" in told(finding)


def test_batch_sampler_that_is_not_shared_out_is_named():
    class Pairs:
        def __iter__(self):
            yield from ([0, 1], [2, 3])

    loader = DataLoader(TensorDataset(torch.zeros(4, 2), torch.zeros(4)), batch_sampler=Pairs())
    finding = diagnosed(_update_dataloader, loader, DistributedSampler(loader.dataset, 2, 0))
    assert "Pairs.__iter__" in finding.where
    assert "use_distributed_sampler=false" in told(finding)


def test_network_of_another_size_on_another_rank_is_laid_to_what_one_rank_sets():
    def sizes():
        raise RuntimeError(
            "[1]: in this process with sizes [8, 2] appears not to match sizes of the same param in process 0."
        )

    finding = diagnosed(sizes)
    assert finding.rule == "crash/ranks-built-apart"
    assert "a parameter of [8, 2]" in finding.why
    assert "setup()" in told(finding)


@pytest.mark.parametrize(("rank", "rule"), [("1", "crash/prepared-on-one-rank"), ("0", "crash/unknown")])
def test_rank_that_lacks_what_prepare_data_sets_is_told_where_it_is_set(rank, rule):
    class Prepared(LightningDataModule):
        samples = None

        def prepare_data(self):
            self.samples = [1, 2]

        def setup(self, stage):
            self.first = self.samples[0]

    with patch.dict(os.environ, LOCAL_RANK=rank):
        finding = diagnosed(Prepared().setup, "fit")
    assert finding.rule == rule
    assert (rank == "0") or "Prepared.prepare_data" in finding.where


def test_unknown_exception_is_placed_and_admitted():
    def own_code():
        raise LookupError("something new")

    finding = diagnosed(own_code)
    assert finding.what == "LookupError: something new"
    assert "in own_code: raise LookupError" in finding.where
    assert "no known cause" in finding.why
    assert "pdb" in told(finding)


@pytest.mark.parametrize("error", [ConfigError("a=1 is wrong; use 2"), JobError("rank 1 of 2 was ended by SIGKILL")])
def test_errors_that_are_one_sentence_stay_that_sentence(error):
    assert diagnose(error).what == str(error)


def test_broken_diagnosis_does_not_hide_the_exception():
    class Unprintable(Exception):
        def __str__(self):
            return self.args[0] if sys._getframe(1).f_code.co_name == "brief" else 1 / 0

    finding = diagnose(Unprintable("told anyway"))
    assert "told anyway" in finding.what
    assert "ZeroDivisionError" in finding.why


# Below: the panel, which shows all that for every job.


def test_exception_of_a_job_is_shown_with_traceback_panel_and_exit_code(train, capfd):
    with pytest.raises(SystemExit) as stopped:
        train(*MISFIT)
    assert stopped.value.code == 1
    shown = capfd.readouterr().err
    assert shown.count("Traceback (most recent call last)") == 1
    assert shown.index("Traceback") < shown.index("where ") < shown.index("expects 400 features, gets 784")
    panel = shown[shown.index("where ") :]
    assert "Error executing job" not in panel
    assert "HYDRA_FULL_ERROR" not in panel


@pytest.mark.parametrize("everything", ["0", "1"])
def test_traceback_has_the_projects_frames_and_the_last_unless_all_are_asked_for(capfd, monkeypatch, everything):
    monkeypatch.setenv("HYDRA_FULL_ERROR", everything)
    with pytest.raises(RuntimeError) as raised:
        fit(Lit(Net(features=9)))
    print_traceback(raised.value)
    files = re.findall(r'File "(.+?)", line', capfd.readouterr().err)
    assert __file__ in files[:-1]
    assert files[-1].endswith("torch/nn/modules/linear.py")
    assert any("pytorch_lightning" in file for file in files) == (everything == "1")


def test_full_error_leaves_the_traceback_to_python(train, capfd, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        train(*MISFIT)
    shown = capfd.readouterr().err
    assert "expects 400 features, gets 784" in shown
    assert "Traceback" not in shown


def test_failing_job_of_a_sweep_has_its_panel_and_its_error_in_the_summary(sweep, capfd, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        sweep("model=mlp", f"{MISFIT[1]},digit_classifier.models.mlp.MLP", "test=false")
    assert stopped.value.code == 1
    assert "expects 400 features, gets 784" in capfd.readouterr().err
    [table] = tmp_path.glob("multirun/**/summary.csv")
    with table.open(newline="", encoding="utf-8") as file:
        failed, finished = csv.DictReader(file)
    assert (failed["state"], finished["state"]) == ("failed", "finished")
    assert failed["error"].startswith("RuntimeError: ")
    assert "mat1 and mat2" in failed["error"]


def test_rank_that_failed_is_named(capfd, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    finding = Finding(
        "crash/x", FAILED, "RuntimeError: it broke", Place(note="here"), "so", Fix("that"), command="that"
    )
    print_panel(finding)
    assert "rank 1: RuntimeError" in capfd.readouterr().err


@pytest.mark.slow  # here, where torch has been used, the item begins as a new interpreter
def test_report_of_a_debug_item_replaces_the_panel(train, capfd):
    with pytest.raises(SystemExit):
        train(*MISFIT, "+debug=fast_dev_run")
    shown = capfd.readouterr()
    assert "expects 400 features, gets 784" in shown.out
    assert "expects 400" not in shown.err


def test_panel_costs_nothing_until_something_fails():
    code = (
        "import sys; from hydra.experimental.callback import Callback; before = set(sys.modules); "
        "import training_checklist.hydra_callbacks.exceptions; "
        "print([name for name in set(sys.modules) - before if 'diagnosis' in name or name in ('torch', 'rich')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_config_key_is_shown_with_the_file_and_line_that_set_it(train, capfd, monkeypatch):
    # As in a project that does not make one line of it itself.
    monkeypatch.setattr("training_runs.start.refusals.not_logged", lambda cfg, error: None)
    with pytest.raises(SystemExit):
        train("monitor=val/acc", "+trainer.num_sanity_val_steps=0")  # else it is refused before the first epoch
    shown = re.sub(r"\s+", "", capfd.readouterr().err)  # a panel breaks a long path where its line ends
    assert re.search(r"callbacks\.checkpoint\.monitor=\$\{monitor\}\(\S*conf/callbacks/checkpoint\.yaml:\d+\)", shown)
    assert "monitor=val/acc(commandline)" in shown
    assert "monitor=val/accuracy,orself.log" in shown


def test_sentence_for_the_user_gets_no_panel(train, capfd):
    with pytest.raises(SystemExit):
        train("model.init=nothing")
    shown = capfd.readouterr().err
    assert "model.init='nothing' must be one of" in shown
    assert "Traceback" not in shown
    assert "where " not in shown


def test_plateau_without_a_monitor_names_where_it_is_made():
    class Waiting(Lit):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)]

    finding = diagnosed(lambda: fit(Waiting()))
    assert finding.place.function == "Waiting.configure_optimizers"
    assert "has to be told which" in finding.why


def test_hook_that_lightning_calls_no_more_is_told_with_what_took_its_place():
    class Old(Lit):
        def training_epoch_end(self, outputs):
            pass

    finding = diagnosed(lambda: fit(Old()))
    assert finding.place.function == "Old.training_epoch_end"
    assert "on_train_epoch_end" in told(finding)


def test_step_for_one_of_several_optimizers_is_of_another_lightning():
    class Old(Lit):
        def training_step(self, batch, batch_idx, optimizer_idx):
            return super().training_step(batch, batch_idx)

        def configure_optimizers(self):
            return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

    finding = diagnosed(lambda: fit(Old()))
    assert (finding.rule, finding.place.function) == ("crash/several-optimizers", "Old.training_step")


def test_step_without_a_loss_is_named():
    class Nameless(Lit):
        def training_step(self, batch, batch_idx):
            return {"train_loss": super().training_step(batch, batch_idx)}

    finding = diagnosed(lambda: fit(Nameless()))
    assert finding.place.function == "Nameless.training_step"
