"""What the saved config of a run may build that came from somebody else."""

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from training_config.errors import ConfigError
from training_runs.records.trust import check_trusted

# What a hostile config would call: with one argument each that it takes.
HOSTILE = [
    {"_target_": "torch.load", "f": "payload.pt", "weights_only": False},
    {"_target_": "torch.hub.load", "repo_or_dir": "somebody/something", "model": "net"},
    {"_target_": "torch.hub.load_state_dict_from_url", "url": "http://host/weights"},
    {"_target_": "torch.save", "obj": 1, "f": "file"},
    {"_target_": "torch.jit.load", "f": "payload.pt"},
    {"_target_": "torch.package.PackageImporter", "file_or_buffer": "payload.pt"},
    {"_target_": "torch.utils.tensorboard.SummaryWriter", "log_dir": "elsewhere"},
    {"_target_": "torch.nn.modules.module.torch.load", "f": "payload.pt"},
    {"_target_": "torch.nn.Module.load_state_dict"},
    {"_target_": "torchvision.datasets.MNIST", "root": "elsewhere", "download": True},
    {"_target_": "torchvision.datasets.DatasetFolder", "root": "elsewhere"},
    {"_target_": "torchvision.io.write_file", "filename": "file"},
    {"_target_": "torchvision.models.resnet34", "weights": "DEFAULT"},
    {"_target_": "torchvision.models.get_model", "name": "resnet18", "weights": "DEFAULT"},
    {"_target_": "torchvision.models.detection.fasterrcnn_resnet50_fpn"},  # fetches its backbone's without being asked
    {"_target_": "torchmetrics.image.fid.FrechetInceptionDistance"},
    {"_target_": "torchmetrics.text.bert.BERTScore", "model_name_or_path": "somebody/something"},
    {"_target_": "pytorch_lightning.LightningModule.load_from_checkpoint", "checkpoint_path": "payload.ckpt"},
    {"_target_": "pytorch_lightning.loggers.CometLogger", "api_key": "1"},
    {"_target_": "pytorch_lightning.cli.LightningCLI"},
    {"_target_": "pytorch_lightning.trainer.trainer.os.system", "command": "ls"},
    {"_target_": "digit_classifier.data.download.download", "url": "http://host"},
    {"_target_": "digit_classifier.evaluation.predictions.write_predictions", "path": "file"},
    {"_target_": "training_runs.records.runs.write_record", "run": "elsewhere", "record": {}},
    {"_target_": "pathlib.Path.unlink"},
    {"_target_": "builtins.open", "file": "file", "mode": "w"},
    {"_target_": "numpy.load", "file": "payload.npy", "allow_pickle": True},
    {"_target_": "hydra.utils.instantiate", "config": {}},
    {"_target_": "hydra.utils.get_method", "path": "os.system"},
    {"_target_": "os.system", "command": "ls"},
    {"_target_": "pip.main"},
    {"_target_": "antigravity.webbrowser"},
    {"_target_": "${oc.decode:torch.load}"},
    {"_target_": "${.other}", "other": "torch.load"},
]

PARTS = [
    {"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 2},
    {"_target_": "torch.optim.RMSprop", "_partial_": True},
    {"_target_": "torch.optim.lr_scheduler.StepLR", "_partial_": True, "step_size": 1},
    {"_target_": "torchvision.models.resnet18"},
    {"_target_": "torchvision.models.resnet18", "weights": None, "num_classes": 10},
    {"_target_": "torchvision.transforms.v2.RandomCrop", "size": 20},
    {"_target_": "torchmetrics.Accuracy", "task": "multiclass"},
    {"_target_": "torchmetrics.classification.MulticlassF1Score", "num_classes": 10},
    {"_target_": "pytorch_lightning.callbacks.Timer"},
    {"_target_": "lightning.pytorch.callbacks.Timer"},
    {"_target_": "digit_classifier.models.schedules.warmup_cosine", "_partial_": True},  # conf/scheduler/cosine.yaml
    {"_target_": "digit_classifier.models.MLP"},
]

COMMAND = OmegaConf.create({"allow": []})


@pytest.fixture(scope="module")
def check(root):
    """`check(part, **command)`: as a saved config with that part, in the generated project."""
    named = OmegaConf.create([OmegaConf.load(path) for path in sorted(Path(root, "conf").rglob("*.yaml"))])

    def run(part: dict, **command) -> None:
        cfg = OmegaConf.create({"allow": [], "own": named} | command)
        check_trusted(OmegaConf.create({"parts": [{"below": part}]}), Path("run"), cfg)

    return run


@pytest.mark.parametrize("part", HOSTILE, ids=lambda part: part["_target_"])
def test_what_reads_writes_fetches_or_runs_is_refused_in_one_line(check, part):
    with pytest.raises(ConfigError, match=r"^run: its config names .*'allow=\[[^\]\n]*\]'$"):
        check(part)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_parts_of_training_are_built(check, part):
    check(part)


@pytest.mark.parametrize("allowed", ["torch.load", "torch.hub", ["torch.nn", "torch"]], ids=str)
def test_command_line_allows_a_name_or_what_is_below_it(check, allowed):
    check({"_target_": "torch.load" if allowed != "torch.hub" else "torch.hub.load"}, allow=allowed)


def test_what_this_command_names_itself_is_built(check):
    check({"_target_": "company.Net"}, model={"net": {"_target_": "company.Net"}})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("${oc.env:AWS_SECRET_ACCESS_KEY}", "oc.env"),
        ("http://host/${oc.env:HOME,nothing}", "oc.env"),
        ("${a.${oc.env:HOME}}", "oc.env"),
        ("${oc.create:'{_target_: torch.load}'}", "oc.create"),
        ("${oc.decode:'{_target_: torch.load}'}", "oc.decode"),
        ("${their_own:1}", "their_own"),
    ],
)
def test_resolver_that_reads_the_environment_or_makes_configs_is_refused(check, value, why):
    with pytest.raises(ConfigError, match=re.escape(f"'allow=[{why}]'")):
        check({"name": value})


@pytest.mark.parametrize(
    "value", ["${hydra:runtime.cwd}", "${now:%Y}", "${oc.select:seed}", "${oc.env:MLFLOW_TRACKING_URI}", "${seed}"]
)
def test_resolvers_of_this_project_are_resolved(check, value):
    check({"name": value})


def test_variable_that_took_the_place_of_a_secret_is_read(check):
    check({"api_key": "${oc.env:PARTS_BELOW_API_KEY}"})


def test_variable_that_the_page_on_security_advises_is_read_into_a_secret_and_nowhere_else(check):
    check({"token": "${oc.env:WANDB_API_KEY}"})
    for part in (
        {"url": "${oc.env:WANDB_API_KEY}"},
        {"token": "${oc.env:HOME}"},
        {"token": "x${oc.env:WANDB_API_KEY}"},
    ):
        with pytest.raises(ConfigError, match="allow="):
            check(part)


def test_saved_config_cannot_allow_itself_anything(root):
    saved = OmegaConf.create({"allow": ["torch.load"], "net": {"_target_": "torch.load"}})
    with pytest.raises(ConfigError):
        check_trusted(saved, Path("run"), COMMAND)
