"""A project that has a `debug` group of its own keeps it, and calls the items' group otherwise."""

import re
import subprocess
import sys

import pytest

FILES = {
    "train.py": """
import hydra
import torch
from torch.utils.data import DataLoader, TensorDataset
import pytorch_lightning as pl


class Net(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.head = torch.nn.Linear(8, 4)

    def training_step(self, batch):
        return torch.nn.functional.cross_entropy(self.head(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.lr)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg):
    print("noise", cfg.get("noise"))
    data = DataLoader(TensorDataset(torch.randn(16, 8), torch.arange(16) % 4), batch_size=8)
    pl.Trainer(**cfg.trainer).fit(Net(cfg.optimizer.lr), data)


main()
""",
    "configs/train.yaml": """
optimizer: {lr: 0.001}
trainer: {accelerator: cpu, logger: false, enable_checkpointing: false, max_epochs: 1}
""",
    "configs/debug/overfit.yaml": "# @package _global_\nnoise: 7\n",
    "pyproject.toml": '[tool.training-checklist]\ngroup = "check"\n',
}
COMPOSED = """
hydra.initialize("configs", version_base="1.3")
cfg = hydra.compose("train", sys.argv[1:])


def main"""


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(*overrides):
        command = [sys.executable, "train.py", *overrides]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_checklist_runs_its_own_item_where_the_project_has_an_option_of_that_name(project, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.training-checklist]\ngroup = "debug"\n')
    asked = project("+debug=checklist", "hydra.callbacks.debug.only=[config,overfit]").stdout
    assert "config          passed" in asked
    assert "[overfit/setting-in-the-way]" in asked
    assert "python train.py +checklist=overfit optimizer.lr=0.01" in asked
    assert "[overfit/setting-in-the-way]" in project("+training_checklist=overfit").stdout


@pytest.mark.slow
def test_group_is_called_as_the_project_says_and_its_own_is_left_alone(project):
    own = project("+debug=overfit")
    assert "noise 7" in own.stdout
    asked = project("+check=fast_dev_run")
    assert asked.returncode == 0, asked.stderr
    assert "fast_dev_run │ passed" in asked.stdout
    assert re.search(r"^check: .*\boverfit\b", project("--help").stdout, re.MULTILINE)


@pytest.mark.slow
def test_program_that_composes_its_config_itself_is_told_so_and_does_not_train(project, tmp_path):
    decorated = '@hydra.main(version_base="1.3", config_path="configs", config_name="train")\n'
    with_main = FILES["train.py"].replace('cfg.get("noise")', 'hydra.compose("train", sys.argv[1:]).get("noise")')
    by_hand = with_main.replace(decorated, "").replace("main()\n", "main(cfg)\n").replace("def main", COMPOSED)
    (tmp_path / "train.py").write_text(f"import sys\n{by_hand}")
    assert "noise None" in project().stdout
    asked = project("+checklist=fast_dev_run")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "HydraException: +checklist=fast_dev_run needs hydra.main" in asked.stderr
    (tmp_path / "train.py").write_text(f"import sys\n{with_main}")
    asked = project("+checklist=fast_dev_run")
    assert "fast_dev_run │ passed" in asked.stdout, asked.stdout + asked.stderr
    at_first = COMPOSED.replace(
        "def main", f"hydra.core.global_hydra.GlobalHydra.instance().clear()\n\n{decorated}def main"
    )
    (tmp_path / "train.py").write_text("import sys\n" + FILES["train.py"].replace(f"{decorated}def main", at_first))
    asked = project("+checklist=fast_dev_run")
    assert "fast_dev_run │ passed" in asked.stdout, asked.stdout + asked.stderr
