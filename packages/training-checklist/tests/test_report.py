import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from own_project import run_project
from pytorch_lightning import Callback
from training_checklist.reporting.wording import reaching


class Raising(Callback):
    def on_train_batch_end(self, *arguments):
        raise RuntimeError("planted in the step")


class BadLoss(Callback):
    """Makes the first loss NaN."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        batch[0].fill_(float("nan"))


def add(callback: type) -> str:
    return f"+callbacks.planted._target_={callback.__module__}.{callback.__qualname__}"


def read(run: Path) -> dict:
    return json.loads((run / "debug" / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def failing(train, tmp_path):
    """`failing(*overrides)`: the directory of a run that ends with exit code 1."""

    def run(*overrides):
        with pytest.raises(SystemExit) as stopped:
            train(*overrides)
        assert stopped.value.code == 1
        return next(tmp_path.glob("outputs/*/*/*"), tmp_path)

    return run


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)


def test_verdict_is_shown_and_written(train, capsys):
    run = train("+debug=fast_dev_run")
    [item] = read(run)["items"]
    assert (read(run)["schema"], read(run)["verdict"], read(run)["crashed"]) == (2, "passed", False)
    assert (item["item"], item["verdict"], item["findings"]) == ("fast_dev_run", "passed", [])
    assert "| fast_dev_run | passed |" in (run / "debug" / "report.md").read_text(encoding="utf-8")
    assert "fast_dev_run │ passed" in capsys.readouterr().out


def test_failed_check_ends_with_one_and_no_traceback(failing, capsys):
    run = failing("+debug=fast_dev_run", add(BadLoss))
    printed = capsys.readouterr()
    assert read(run)["verdict"] == "failed"
    assert "Traceback" not in printed.out + printed.err
    assert "fast_dev_run failed: the first loss is nan" in printed.out


def test_crash_is_a_finding_with_its_traceback(failing, capfd):
    run = failing("+debug=fast_dev_run", add(Raising))
    report = read(run)
    assert (report["verdict"], report["crashed"]) == ("failed", True)
    assert "planted in the step" in report["items"][0]["findings"][0]["what"]
    said = capfd.readouterr().err
    assert said.count("Traceback (most recent call last)") == 1
    assert "─ RuntimeError ─" not in said  # the report stands in the place of the panel


def test_items_together_give_a_verdict_each(train):
    report = read(train("+debug=[fast_dev_run,anomaly]"))
    assert [(item["item"], item["verdict"]) for item in report["items"]] == [
        ("fast_dev_run", "passed"),
        ("anomaly", "passed"),
    ]


def test_items_that_exclude_each_other_are_refused_in_one_sentence(failing, capsys):
    run = failing("+debug=[overfit,fast_dev_run]")
    told = capsys.readouterr().err
    assert "fast_dev_run and overfit cannot share a run: each of them decides how long it lasts" in told
    assert "train.py +debug=checklist" in told
    assert not (run / "debug").exists()  # nothing is left of it


def test_sweep_has_a_report_a_job(sweep, tmp_path):
    sweep("+debug=fast_dev_run", "model=cnn,mlp")
    reports = tmp_path.glob("multirun/**/debug/report.json")
    assert [json.loads(path.read_text(encoding="utf-8"))["verdict"] for path in reports] == ["passed", "passed"]


TRAINED = ["data=mnist_sample", "+trainer.max_steps=1", "test=false", "logger=csv", "callbacks=[]"]


def test_without_an_item_nothing_of_a_check_is_imported(root, tmp_path):
    script = (
        "import atexit, runpy, sys; sys.argv[0] = sys.argv.pop(1); "
        "atexit.register(lambda: print([name for name in sys.modules if name.startswith('training_checklist.')])); "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", script, root / "train.py", *TRAINED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    # Where Hydra finds the group, and the callback that waits for an exception: a few lines.
    assert imported == [
        f"training_checklist.{name}" for name in ("group", "conf", "hydra_callbacks", "hydra_callbacks.exceptions")
    ]


OTHER = {
    "train.py": """
import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from torch.utils.data import DataLoader, TensorDataset


class Net(pl.LightningModule):
    def __init__(self, optimizer):
        super().__init__()
        self.optimizer = optimizer
        self.head = torch.nn.Linear(8, 4)

    def training_step(self, batch, batch_idx):
        return torch.nn.functional.cross_entropy(self.head(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def test_step(self, batch, batch_idx):
        self.log("test/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return self.optimizer(self.parameters())


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    pl.seed_everything(1)
    loader = DataLoader(TensorDataset(4 * torch.randn(16, 8), torch.arange(16) % 4), batch_size=8)
    trainer, net = instantiate(cfg.trainer), Net(**instantiate(cfg.model))
    trainer.fit(net, loader, loader)
    trainer.test(net, loader, ckpt_path="best")


main()
""",
    "conf/train.yaml": """
defaults: [_self_, {debug: null}]
model:
  optimizer: {_target_: torch.optim.Adam, _partial_: true, lr: 0.1}
trainer:
  _target_: pytorch_lightning.Trainer
  accelerator: cpu
  logger: false
  default_root_dir: ${hydra:runtime.output_dir}
  enable_progress_bar: false
  enable_model_summary: false
  callbacks:
    - {_target_: pytorch_lightning.callbacks.ModelCheckpoint, monitor: val/loss}
""",
}


# Its callbacks are a list in cfg.trainer, and it ends with the best checkpoint, of which a check keeps none.
@pytest.mark.parametrize("item", ["fast_dev_run", "overfit", "gradients"])
def test_check_reaches_a_project_that_builds_its_callbacks_elsewhere_and_tests_the_best(tmp_path, item):
    [verdict] = run_project(tmp_path, item, OTHER)
    assert (verdict["verdict"], verdict["skipped"], verdict["findings"]) == ("passed", None, [])


def test_failed_item_ends_without_hydras_error_and_names_the_projects_own_keys(tmp_path, capfd):
    [verdict] = run_project(tmp_path, "overfit", OTHER, "model.optimizer.lr=1e-7")
    [finding] = verdict["findings"]
    assert finding["fix"].startswith("python train.py debug=overfit model.optimizer.lr=")
    printed = capfd.readouterr()
    assert "Error executing job" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("override", "known"),
    [
        ("optimizer.lr=0.1", "model.optimizer.lr=0.1"),
        ("++optimizer.eps=1", "++model.optimizer.eps=1"),  # at the top, nothing would read it
        ("scheduler.interval=epoch", None),
        ("++optimizer.lr=1", "model.optimizer.lr=1"),
        ("trainer.accelerator=gpu", "trainer.accelerator=gpu"),
        ("trainer.precision=bf16-mixed", "++trainer.precision=bf16-mixed"),
        ("~callbacks.ema", "~callbacks.ema"),
    ],
)
def test_command_names_keys_that_the_config_has_or_adds_them(override, known):
    config = OmegaConf.create({"model": {"optimizer": {"lr": 0.1}}, "trainer": {"accelerator": "cpu"}})
    assert reaching(config, override) == known


def test_batch_is_memorised_whatever_item_comes_after(train):
    items = read(train("+debug=[overfit,trace]", "model=mlp"))["items"]
    assert [(item["item"], item["verdict"]) for item in items] == [("overfit", "passed"), ("trace", "passed")]


def test_schedule_that_ends_with_the_run_suits_every_item_of_it(train):
    items = read(train("+debug=[trace,gradients,learning]", "model=mlp", "scheduler=one_cycle"))["items"]
    assert [item["verdict"] for item in items] == ["passed"] * 3
    # Which is no run that a schedule could be judged by.
    assert items[2]["unjudged"]["schedule/rises-again"].startswith("trace has made this run shorter")


def test_what_items_run_for_themselves_the_others_do_not_take_for_the_run(train):
    run = train("+debug=[device,trace,gradients,memory,gradcheck,learning]", "model=mlp")
    items = read(run)["items"]
    assert [(item["item"], item["verdict"], item["findings"]) for item in items] == [
        (name, "passed", []) for name in ("device", "trace", "gradients", "memory", "gradcheck", "learning")
    ]
    table = (run / "debug" / "trace.md").read_text(encoding="utf-8")
    assert table.count("CrossEntropyLoss") == 1
    assert "float64" not in table
