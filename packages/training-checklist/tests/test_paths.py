"""A small project, healthy as it stands, gets one fault at a time; the paths item must name it and who is to blame."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning
import torch
from omegaconf import OmegaConf
from own_project import run_project
from pytorch_lightning import Callback
from pytorch_lightning.loggers import CSVLogger, Logger
from torch.utils.tensorboard import SummaryWriter
from training_checklist.engines.inside import moved, writing_inside
from training_checklist.experiments.paths.event_file import scalars
from training_checklist.experiments.paths.written_files import Recording, holds_data
from training_checklist.probes.paths.outside_run_directory import data
from training_checklist.starting.own_files import put_back

PARTS = """
import tempfile
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader


class Lit(pl.LightningModule):
    def __init__(self, logs=True):
        super().__init__()
        self.logs = logs
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).square().mean()
        if self.logs:
            self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        if self.logs:
            self.log("val/loss", self.layer(batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Data(pl.LightningDataModule):
    def __init__(self, root="cache"):
        super().__init__()
        self.root = Path(root)

    def prepare_data(self):
        self.root.mkdir(exist_ok=True)
        (self.root / "raw.bin").write_bytes(b"0")
        torch.save(torch.ones(1), self.root / "processed.pt")
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(b"0")

    def train_dataloader(self):
        return DataLoader(torch.randn(8, 2), 2)

    def val_dataloader(self):
        return DataLoader(torch.randn(8, 2), 2)


class Plots(pl.Callback):
    def on_fit_end(self, trainer, pl_module):
        Path("figures").mkdir(exist_ok=True)
        Path("figures/loss.svg").write_text("<svg/>")
"""
TRAIN = """
import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    callbacks = [instantiate(part) for part in cfg.callbacks.values()]
    loggers = [instantiate(part) for part in cfg.logger.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks, logger=loggers or True)
    trainer.fit(instantiate(cfg.model), instantiate(cfg.data))
    # the end


if __name__ == "__main__":
    main()
"""
FILES = {
    "parts.py": PARTS,
    "train.py": TRAIN,
    "conf/train.yaml": """defaults:
  - callbacks: checkpoint
  - logger: csv
  - debug: null
  - _self_

model:
  _target_: parts.Lit
data:
  _target_: parts.Data
trainer:
  max_epochs: 3
  accelerator: cpu
  enable_progress_bar: false
  enable_model_summary: false
""",
    "conf/callbacks/checkpoint.yaml": """checkpoint:
  _target_: pytorch_lightning.callbacks.ModelCheckpoint
  dirpath: ${hydra:runtime.output_dir}/checkpoints
""",
    "conf/callbacks/none.yaml": "{}\n",
    "conf/logger/none.yaml": "{}\n",
    "conf/logger/csv.yaml": """csv:
  _target_: pytorch_lightning.loggers.CSVLogger
  save_dir: ${hydra:runtime.output_dir}
""",
    "conf/logger/tensorboard.yaml": """tensorboard:
  _target_: pytorch_lightning.loggers.TensorBoardLogger
  save_dir: ${hydra:runtime.output_dir}
""",
}


@pytest.fixture
def judge(tmp_path):
    """`judge(*overrides, files=...)`: the paths item's verdict on the project, with some files written anew."""
    folder = tmp_path / "project"

    def run(*overrides: str, files: dict[str, str] | None = None) -> dict:
        [item] = run_project(folder, "paths", FILES | (files or {}), *overrides)
        return item

    return run


def finding(item: dict) -> dict:
    [only] = item["findings"]
    return only


@pytest.mark.parametrize("overrides", [["logger=[csv,tensorboard]"], ["+data.root=data", "trainer.max_epochs=1"]])
def test_run_that_keeps_to_its_directory_passes(judge, overrides):
    item = judge(*overrides)
    assert item["findings"] == []
    assert item["verdict"] == "passed"
    assert item["seen"].startswith(".hydra, train.log, 1 checkpoint, metrics.csv")


def test_checkpoints_elsewhere_fail_with_the_key_and_its_line(judge):
    moved = FILES["conf/callbacks/checkpoint.yaml"].replace("${hydra:runtime.output_dir}", "../shared")
    found = finding(judge(files={"conf/callbacks/checkpoint.yaml": moved}))
    who = "callbacks.checkpoint (ModelCheckpoint) writes outside the run's directory"
    assert found["what"].startswith(f"{who}: ../shared/checkpoints/")
    assert found["rule"] == "paths/outside-run-directory"
    assert found["where"] == ("callbacks.checkpoint.dirpath=../shared/checkpoints (conf/callbacks/checkpoint.yaml:3)")
    wanted = "'callbacks.checkpoint.dirpath=${hydra:runtime.output_dir}/checkpoints'"
    assert found["fix"] == f"python train.py debug=paths {wanted}"


def test_logger_in_the_working_directory_fails_with_its_key(judge):
    found = finding(judge("logger.csv.save_dir=logs"))
    assert "logger.csv (CSVLogger)" in found["what"]
    assert found["where"].startswith("logger.csv.save_dir=logs (command line")


def test_logger_of_the_code_is_none_of_a_config_that_nobody_builds(judge):
    train = TRAIN.replace("loggers or True", 'pl.loggers.CSVLogger("plots", "built")')
    found = finding(judge("+logger.csv.name=told", files={"train.py": train}))
    assert found["what"].startswith("CSVLogger, built in code, writes outside the run's directory")
    assert "train.py" in found["where"]


def test_callback_of_the_code_is_none_of_a_config_that_nobody_builds(judge):
    made = '[pl.callbacks.ModelCheckpoint("kept", monitor="train/loss", filename="best")]'
    train = TRAIN.replace("[instantiate(part) for part in cfg.callbacks.values()]", made)
    found = finding(judge("+callbacks.checkpoint.filename=best", files={"train.py": train}))
    assert found["what"].startswith("ModelCheckpoint, built in code, writes outside the run's directory")


def test_key_that_the_runs_own_directory_is_made_of_is_not_to_be_made_of_that(judge):
    logger = FILES["conf/logger/csv.yaml"].replace("${hydra:runtime.output_dir}", "${logs}/csv")
    found = finding(judge("+logs=logs", "hydra.run.dir='${logs}/now'", files={"conf/logger/csv.yaml": logger}))
    assert "'logger.csv.save_dir=${hydra:runtime.output_dir}'" in found["fix"]


def test_callback_that_writes_beside_the_run_fails_with_its_key(judge):
    found = finding(judge("+callbacks.plots._target_=parts.Plots"))
    assert found["what"] == "callbacks.plots (Plots) writes outside the run's directory: figures/loss.svg"
    assert found["fix"] == "write below HydraConfig.get().runtime.output_dir"  # it takes no save_dir


def test_folder_of_checkpoints_that_code_sets_is_to_be_mended_in_the_code(judge):
    train = TRAIN.replace("    loggers = [", "    callbacks[0].dirpath = 'checkpoints/all'\n    loggers = [")
    found = finding(judge(files={"train.py": train}))
    assert found["what"].startswith("callbacks.checkpoint (ModelCheckpoint) writes outside the run's directory")
    assert found["fix"] == "in train.py:11: dirpath = HydraConfig.get().runtime.output_dir"


def test_key_that_the_code_sets_anew_is_not_what_sends_a_file_to_a_folder(judge):
    lines = "    from omegaconf import open_dict\n    with open_dict(cfg):\n        cfg.kept = 'kept'\n    loggers = ["
    code = "import os; os.makedirs(cfg.kept, exist_ok=True); open(f'{cfg.kept}/a.txt', 'w').close()"
    train = TRAIN.replace("    loggers = [", lines).replace("# the end", code)
    found = finding(judge("+kept=kept", files={"train.py": train}))
    assert (found["place"].get("key"), found["where"].partition(":")[0]) == (None, "train.py")


@pytest.mark.parametrize("code", ["open('final.txt', 'w').close()", "torch.save({}, 'final.txt')"])
def test_file_of_the_script_fails_with_its_line(judge, code):
    found = finding(judge(files={"train.py": TRAIN.replace("# the end", code)}))
    assert found["what"] == "the code writes outside the run's directory: final.txt"
    assert found["where"] == "train.py:14"


def test_key_that_is_no_more_than_another_sends_nothing_to_a_folder(judge):
    code = "import os; os.makedirs(cfg.paths.kept); open(f'{cfg.paths.kept}/a.txt', 'w').close()"
    keys = ("+paths.name=kept", "+paths.kept='${hydra:runtime.cwd}/${.name}'", "+zoo.root='${paths.kept}'")
    found = finding(judge(*keys, files={"train.py": TRAIN.replace("# the end", code)}))
    assert found["place"]["key"] == "paths.kept"


def test_folder_with_an_id_that_is_drawn_anew_belongs_to_one_run(judge):
    code = "import os, uuid; os.makedirs(folder := f'kept/{uuid.uuid4().hex}'); open(f'{folder}/a.txt', 'w').close()"
    found = finding(judge(files={"train.py": TRAIN.replace("# the end", code)}))
    assert found["severity"] == "remark"


def test_table_that_each_run_adds_a_line_to_is_shared_on_purpose(judge):
    code = "open('results.csv', 'a').close()"
    found = finding(judge(files={"train.py": TRAIN.replace("# the end", code)}))
    assert found["severity"] == "remark"
    assert "each run adds" in found["why"]


@pytest.mark.parametrize(
    "body",
    [
        "if not os.path.exists('squares.pt'):\n        torch.save({}, 'squares.pt')",
        "if Path('squares.pt').is_file():\n        return torch.load('squares.pt')\n    torch.save({}, 'squares.pt')",
    ],
)
def test_file_that_is_made_where_it_is_not_there_yet_is_a_cache(judge, body):
    code = f"import os\nfrom pathlib import Path\nimport torch\n\n\ndef squares():\n    {body}\n\n\n"
    train = TRAIN.replace("# the end", "squares()").replace("@hydra.main", f"{code}@hydra.main", 1)
    found = finding(judge(files={"train.py": train}))
    assert found["severity"] == "remark"
    assert "later runs find it" in found["why"]


def test_file_of_another_process_fails(judge):
    code = "import subprocess; subprocess.run('echo 1 > final.txt', shell=True)"
    found = finding(judge(files={"train.py": TRAIN.replace("# the end", code)}))
    assert found["what"].endswith("writes outside the run's directory: final.txt")


def test_file_under_a_name_that_no_text_says_is_no_matter_of_the_trainers_folder(judge):
    code = "import subprocess; subprocess.run(f'echo 1 > weights_{len(loggers)}.pt', shell=True)"
    found = finding(judge(files={"train.py": TRAIN.replace("# the end", code)}))
    assert found["fix"] == "write below HydraConfig.get().runtime.output_dir"


def test_log_that_the_shell_has_opened_before_passes(judge, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "log.txt").write_text("begun\n")
    code = "import subprocess; subprocess.run('echo more >> log.txt', shell=True)"
    assert judge(files={"train.py": TRAIN.replace("# the end", code)})["findings"] == []


def test_the_trainers_own_logger_fails(judge):
    code = TRAIN.replace("logger=loggers", "logger=True")
    findings = judge(files={"train.py": code})["findings"]
    assert findings
    assert all("lightning_logs" in found["what"] for found in findings)
    assert "+trainer.default_root_dir=${hydra:runtime.output_dir}" in findings[0]["fix"]


def test_checkpoints_of_the_trainers_own_are_no_fault_in_the_runs_directory(judge):
    assert judge("callbacks=none")["findings"] == []


def test_checkpoint_callback_that_is_taken_away_is_named(judge):
    found = finding(judge("~callbacks.checkpoint"))
    assert (found["rule"], found["place"]["key"]) == ("paths/checkpoint-callback-removed", "callbacks.checkpoint")


def test_no_checkpoints_on_purpose_passes(judge):
    assert judge("callbacks=none", "+trainer.enable_checkpointing=false")["findings"] == []


def test_loggers_that_get_nothing_fail(judge):
    findings = judge("+model.logs=false", "logger=[csv,tensorboard]")["findings"]
    assert sorted(found["where"].partition(" ")[0] for found in findings) == ["logger.csv", "logger.tensorboard"]
    assert all("nothing was logged" in found["why"] for found in findings)


BUILT = """module, data = instantiate(cfg.model), instantiate(cfg.data)
    trainer.fit(module, data)"""
WITH_TEST = """

class Tested(Lit):
    def test_step(self, batch, batch_idx):
        pass


class Three(Data):
    def test_dataloader(self):
        return DataLoader(torch.randn(8, 2), 2)
"""
TESTS = {
    "trainer.test(module, data)": True,
    "trainer.test(module, data, ckpt_path='best')": False,
    "trainer.test(module, data, ckpt_path=trainer.checkpoint_callback.best_model_path or None)": False,
    "module.load_state_dict(torch.load(trainer.checkpoint_callback.best_model_path, weights_only=False)['state_dict'])"
    "; trainer.test(module, data)": False,
}


@pytest.mark.parametrize("code", TESTS)
def test_last_weights_that_are_tested_where_the_best_are_kept_are_a_remark(judge, code):
    built = TRAIN.replace("trainer.fit(instantiate(cfg.model), instantiate(cfg.data))", BUILT)
    files = {"train.py": built.replace("# the end", code), "parts.py": PARTS + WITH_TEST}
    config = FILES["conf/train.yaml"].replace("parts.Lit", "parts.Tested").replace("parts.Data", "parts.Three")
    files["conf/train.yaml"] = config
    verdict = judge("+callbacks.checkpoint.monitor=val/loss", files=files)
    assert [found["rule"] for found in verdict["findings"]] == ["paths/last-weights-tested"] * TESTS[code]
    assert verdict["verdict"] == "passed"


@pytest.mark.parametrize(
    ("folder", "said"), [("${hydra:runtime.output_dir}/checkpoints", True), ("${hydra:runtime.cwd}/kept", False)]
)
def test_last_checkpoint_in_a_folder_that_is_new_in_every_run(judge, folder, said):
    files = {
        "train.py": TRAIN.replace("instantiate(cfg.data))", "instantiate(cfg.data), ckpt_path='last')"),
        "conf/callbacks/checkpoint.yaml": FILES["conf/callbacks/checkpoint.yaml"].replace(
            "${hydra:runtime.output_dir}/checkpoints", folder
        ),
    }
    found = [found["rule"] for found in judge(files=files)["findings"]]
    assert ("paths/nothing-to-resume" in found) == said


def test_nothing_in_the_trainers_own_logger_is_a_remark(judge):
    verdict = judge("+model.logs=false", "logger=none", "+trainer.default_root_dir=${hydra:runtime.output_dir}")
    assert [(found["rule"], found["severity"]) for found in verdict["findings"]] == [("paths/nothing-logged", "remark")]
    assert verdict["verdict"] == "passed"


def test_event_file_of_a_logger_that_the_trainer_is_not_given_is_a_remark(judge):
    unused = "pl.loggers.TensorBoardLogger(HydraConfig.get().runtime.output_dir, 'unused').log_hyperparams({'lr': 0.1})"
    imported = "from hydra.core.hydra_config import HydraConfig\nfrom hydra.utils"
    train = TRAIN.replace("from hydra.utils", imported).replace("    trainer =", f"    {unused}\n    trainer =")
    verdict = judge(files={"train.py": train})
    assert [(found["rule"], found["severity"]) for found in verdict["findings"]] == [("paths/nothing-logged", "remark")]


def test_working_directory_as_run_directory_fails(judge):
    found = finding(judge("hydra.run.dir=."))
    assert found["what"] == "the run's directory is the working directory itself"
    assert "chdir" not in found["fix"]


def test_fix_of_a_run_directory_leaves_relative_paths_as_they_are(judge):
    found = finding(judge("hydra.run.dir=.", "hydra.job.chdir=true"))
    assert found["fix"].endswith("'hydra.run.dir=outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}' hydra.job.chdir=false")


@pytest.mark.parametrize(("folder", "told"), [("kept/${now:%Y-%m-%d_%H-%M-%S}", []), ("kept", ["failed"])])
def test_working_directory_as_run_directory_is_none_where_each_run_makes_a_folder_of_its_own(judge, folder, told):
    placed = [f"callbacks.checkpoint.dirpath={folder}", f"logger.csv.save_dir={folder}"]
    verdict = judge("hydra.run.dir=.", "hydra.output_subdir=null", "hydra/job_logging=none", *placed)
    assert [each["severity"] for each in verdict["findings"] if each["rule"] == "paths/shared-directory"] == told


@pytest.mark.parametrize(("folder", "told"), [("kept/${now:%Y-%m-%d_%H-%M-%S}", False), ("kept", True)])
def test_record_of_hydra_in_another_folder_of_this_run_alone_is_in_its_place(judge, folder, told):
    rules = [each["rule"] for each in judge(f"hydra.output_subdir=${{hydra:runtime.cwd}}/{folder}")["findings"]]
    assert rules == ["paths/record-missing"] if told else "paths/record-missing" not in rules


def test_checkpoint_may_hold_the_trainer(judge):
    """As that of a module which keeps its DataModule among its hyperparameters."""
    parts = PARTS.replace("self.logs = logs", "self.save_hyperparameters(logger=False)\n        self.logs = True")
    train = TRAIN.replace("instantiate(cfg.model), instantiate(cfg.data)", "instantiate(cfg.model, data), data")
    train = train.replace("    trainer.fit", "    data = instantiate(cfg.data)\n    trainer.fit")
    load = "torch.load(trainer.checkpoint_callback.best_model_path, weights_only=False)"
    verdict = judge(files={"parts.py": parts, "train.py": train.replace("# the end", load)})
    assert (verdict["verdict"], verdict["error"]) == ("passed", None)


def test_file_in_a_folder_that_is_called_a_cache_is_shared_on_purpose(judge):
    code = "import os; os.makedirs('../dataset_cache', exist_ok=True); open('../dataset_cache/a.db', 'w').close()"
    found = finding(judge(files={"train.py": TRAIN.replace("# the end", code)}))
    assert (found["severity"], "is a cache" in found["why"]) == ("remark", True)


@pytest.mark.parametrize(
    ("folder", "given", "place", "fix"),
    [("'kept'", (), "train.py:14", "/ 'kept'"), ("cfg.kept", ("+kept=kept",), "kept=kept (", "kept=${hydra:")],
)
def test_files_that_several_lines_write_to_one_folder_are_one_finding(judge, folder, given, place, fix):
    """A table that each run adds to stays apart: it may lie there on purpose."""
    lines = [
        f"from pathlib import Path; folder = Path({folder}); folder.mkdir(exist_ok=True)",
        "(folder / 'a.txt').write_text('')",
        "(folder / 'b.txt').write_text('')",
        "open(folder / 'runs.csv', 'a').close()",
        "open(folder / 'sums.csv', 'a').close()",
    ]
    found = judge(*given, files={"train.py": TRAIN.replace("# the end", "\n    ".join(lines))})["findings"]
    error, remark = sorted(found, key=lambda each: each["severity"])
    assert "kept/a.txt, kept/b.txt" in error["what"]
    assert (error["where"].startswith(place), fix in str(error["fix"])) == (True, True)
    assert (remark["severity"], "kept/runs.csv, kept/sums.csv" in remark["what"]) == ("remark", True)


@pytest.mark.parametrize(("read", "key"), [("kept", "kept"), ("model.kept", "model.kept"), (None, None)])
def test_key_that_the_line_reads_sends_its_file_to_a_folder_and_none_that_nothing_reads(judge, read, key):
    """Of two with the same value."""
    path = "'kept'" if read is None else f"cfg.{read}"
    code = f"import os; os.makedirs('kept', exist_ok=True); open({path} + '/a.txt', 'w').close()"
    given = ["++model._target_=parts.Lit", "+stored.ckpt_store=kept"]
    given += [] if read is None else ["+kept=kept", "+model.kept=kept"]
    train = TRAIN.replace("instantiate(cfg.model)", "instantiate({'_target_': cfg.model._target_})")
    found = finding(judge(*given, files={"train.py": train.replace("# the end", code)}))
    assert found["place"].get("key") == key


@pytest.mark.parametrize(("folder", "told"), [("kept/%Y-%m-%d_%H-%M", 0), ("kept", 1)])
def test_config_that_code_saves_in_a_folder_of_the_run_is_a_record(judge, folder, told):
    lines = f"""    folder = datetime.now().strftime({folder!r})
    os.makedirs(folder, exist_ok=True)
    OmegaConf.save(cfg, f"{{folder}}/config.yaml")
"""
    imported = "import os\nfrom datetime import datetime\n\nimport hydra\nfrom omegaconf import OmegaConf\n"
    train = TRAIN.replace("import hydra\n", imported, 1).replace("    trainer =", f"{lines}    trainer =")
    verdict = judge("hydra.output_subdir=null", files={"train.py": train})
    assert [each["rule"] for each in verdict["findings"]].count("paths/record-missing") == told


def test_second_run_into_a_directory_fails(judge, tmp_path):
    assert judge("hydra.run.dir=same")["verdict"] == "warning"
    (tmp_path / "project" / "same" / "debug" / "report.json").unlink()
    (tmp_path / "project" / "same" / "last.ckpt").touch()
    found = finding(judge("hydra.run.dir=same"))
    assert found["what"].startswith("same held the results of another job already")


def test_jobs_of_a_sweep_in_one_directory_fail(tmp_path):
    arguments = ("-m", "hydra.sweep.dir=sweep", "hydra.sweep.subdir=same", "trainer.accelerator=cpu,auto")
    verdicts = run_project(tmp_path, "paths", FILES, *arguments)
    assert "two jobs of this sweep share sweep/same" in [found["what"] for v in verdicts for found in v["findings"]]


def test_jobs_of_a_sweep_in_their_directories_pass(tmp_path):
    verdicts = run_project(tmp_path, "paths", FILES, "-m", "trainer.accelerator=cpu,auto")
    assert [verdict["verdict"] for verdict in verdicts] == ["passed", "passed"]


def test_trainer_without_a_folder_is_named_once_and_leaves_nothing(judge, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "evaluate.py").write_text("Trainer()")  # of another program
    found = finding(judge("~callbacks", "+callbacks={}", "~logger", "+logger={}"))
    assert found["what"].startswith("the Trainer, without a folder of its own, writes outside the run's directory")
    assert {Path(name.strip()).suffix for name in found["what"].split(": ")[1].split(",")} >= {".ckpt", ".yaml"}
    assert found["place"]["file"] == "train.py"
    assert "+trainer.default_root_dir=${hydra:runtime.output_dir}" in found["fix"]
    assert not (tmp_path / "project" / "lightning_logs").exists()


def test_folder_that_a_trainer_is_given_is_told_as_such(judge):
    train = TRAIN.replace("Trainer(", "Trainer(default_root_dir='results', ", 1)
    found = finding(judge("~callbacks", "+callbacks={}", "~logger", "+logger={}", files={"train.py": train}))
    assert found["what"].startswith("the Trainer, in the default_root_dir that it is given, writes outside")
    assert "results/lightning_logs/version_0" in found["what"]
    assert "version_N" in found["why"]
    assert "default_root_dir=HydraConfig.get().runtime.output_dir" in found["fix"]


def test_logger_built_in_code_is_told_its_argument_and_so_are_the_checkpoints_in_its_folder(judge):
    train = TRAIN.replace("loggers = [", "loggers = [pl.loggers.CSVLogger('logs')] or [")
    verdict = judge("~callbacks", "+callbacks={}", "~logger", "+logger={}", files={"train.py": train})
    by_logger, by_checkpoint = sorted(verdict["findings"], key=lambda found: found["what"])
    assert by_logger["what"].startswith("CSVLogger, built in code, writes outside the run's directory: logs")
    assert by_checkpoint["what"].startswith("ModelCheckpoint, in the folder of CSVLogger, writes outside")
    line = f"train.py:{train[: train.index('pl.loggers')].count(chr(10)) + 1}"
    assert {found["fix"] for found in (by_logger, by_checkpoint)} == {
        f"in {line}: save_dir=HydraConfig.get().runtime.output_dir"
    }


def test_file_that_torch_writes_is_told_with_its_line(judge):
    code = "import torch\n" + TRAIN.replace("    loggers = [", "    torch.save({}, f'net_{1}.pt')\n    loggers = [")
    found = finding(judge(files={"train.py": code}))
    assert found["what"] == "the code writes outside the run's directory: net_1.pt"
    assert found["where"].startswith(f"train.py:{code[: code.index('torch.save')].count(chr(10)) + 1}")


def test_file_beside_the_folder_of_a_logger_is_not_the_logger_s(judge):
    train = TRAIN.replace("loggers = [", "loggers = [pl.loggers.CSVLogger('logs/csv')] or [")
    written = "    os.makedirs('logs/notes', exist_ok=True)\n    os.system('echo 1 > logs/notes/today; true')\n"
    train = f"import os\n{train}".replace("    loggers = [", f"{written}    loggers = [")
    found = judge("~logger", "+logger={}", files={"train.py": train})["findings"]
    assert [each["what"].partition(" writes ")[0] for each in found if "notes/today" in each["what"]] == ["something"]


def test_checkpoints_in_the_folder_of_a_configured_logger_are_told_its_key(judge):
    found = judge("~callbacks", "+callbacks={}", "logger.csv.save_dir=logs")["findings"]
    by_checkpoint = next(each for each in found if each["what"].startswith("ModelCheckpoint, in the folder of"))
    assert by_checkpoint["what"].startswith("ModelCheckpoint, in the folder of logger.csv, writes outside")
    assert by_checkpoint["fix"] == next(each["fix"] for each in found if each is not by_checkpoint)


def test_key_that_has_the_text_of_a_folder_that_a_logger_makes_itself_sends_nothing_there(judge):
    logger = "\n\nclass Kept(pl.loggers.CSVLogger):\n    log_dir = 'kept/one'\n    save_dir = '.'\n"
    chosen = ("logger=none", "+logger.own={_target_: parts.Kept, save_dir: '.'}", "+which=kept")
    found = finding(judge(*chosen, files={"parts.py": PARTS + logger}))
    assert found["what"].startswith("logger.own (Kept) writes outside")
    assert "++logger.own.save_dir=" in found["fix"]


def test_parts_that_code_builds_in_other_runs_are_not_told_for_those_of_this_one(judge):
    others = "    if cfg.get('others'):\n        pl.Trainer(callbacks=[pl.callbacks.ModelCheckpoint('models')])\n"
    train = TRAIN.replace("    callbacks = [", f"{others}    callbacks = [").replace("pl.Trainer(**", "make(**")
    train = train.replace("@hydra", "def make(**options):\n    return pl.Trainer(**options)\n\n\n@hydra")
    found = finding(judge("~callbacks", "+callbacks={}", "~logger", "+logger={}", files={"train.py": train}))
    assert found["what"].startswith("the Trainer, without a folder of its own")
    assert found["place"]["line"] == train[: train.index("return pl.Trainer")].count("\n") + 1


def test_checkpoints_of_a_folder_that_code_names_are_told_their_own_argument(judge):
    train = TRAIN.replace("loggers = [", "loggers = [pl.loggers.CSVLogger('logs')] or [")
    train = train.replace("callbacks = [", "callbacks = [pl.callbacks.ModelCheckpoint('models')] or [")
    verdict = judge("~callbacks", "+callbacks={}", "~logger", "+logger={}", files={"train.py": train})
    [fix] = [found["fix"] for found in verdict["findings"] if found["what"].startswith("ModelCheckpoint, built in")]
    assert fix.endswith(": dirpath=HydraConfig.get().runtime.output_dir")


def test_events_of_a_logger_built_in_code_are_the_loggers(judge):
    # hparams.yaml is there from an earlier run, and not written again.
    train = TRAIN.replace("loggers = [", "loggers = [pl.loggers.TensorBoardLogger('logs', 'net', 'small')] or [")
    files = {"train.py": train, "logs/net/small/hparams.yaml": "{}\n"}
    verdict = judge("~logger", "+logger={}", files=files)
    writers = {found["what"].partition(" writes")[0] for found in verdict["findings"]}
    assert writers == {"TensorBoardLogger, built in code,"}


SERVICE = """

class Service(pl.loggers.CSVLogger):
    def __init__(self, project, save_dir="."):
        super().__init__(save_dir, project)


class Drawing(Lit):
    def on_fit_end(self):
        torch.save({}, f"{self.logger.log_dir}/{self.logger.version}.drawing")
"""


def test_file_in_a_loggers_folder_that_no_text_names_is_the_loggers_and_a_projects_name_is_no_place(judge):
    asked = ("logger=none", "+logger.service={_target_: parts.Service, project: mine}", "model._target_=parts.Drawing")
    verdict = judge(*asked, "callbacks.checkpoint.dirpath=null", files={"parts.py": PARTS + SERVICE})
    by_checkpoint, by_logger = sorted(verdict["findings"], key=lambda found: found["what"])
    assert by_logger["what"].startswith("logger.service (Service) writes outside")
    assert ".drawing" in by_logger["what"]
    assert "++logger.service.save_dir=${hydra:runtime.output_dir}" in by_logger["fix"]
    assert "callbacks.checkpoint.dirpath=${hydra:runtime.output_dir}" in by_checkpoint["fix"]


def test_config_and_paths_judge_one_run_together(tmp_path):
    config, paths = run_project(tmp_path, "config,paths", FILES)
    assert (config["item"], config["verdict"]) == ("config", "passed")
    assert "metrics.csv" in paths["seen"]


def test_scalars_of_an_event_file_are_told_from_the_rest(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", torch.randn(9))
        writer.add_text("note", "text")
        writer.add_scalar("hp_metric", -1)
    [path] = tmp_path.glob("events*")
    assert scalars(path) == set()
    with SummaryWriter(tmp_path, filename_suffix=".more") as writer:
        writer.add_scalar("train/loss", 1.5)
        writer.add_scalar("val/loss", 1.5, new_style=True)
    [path] = tmp_path.glob("events*.more")
    assert scalars(path) == {"train/loss", "val/loss"}
    path.write_bytes(path.read_bytes()[:-9])
    assert scalars(path) == {"train/loss"}


def test_folder_called_data_is_for_data_unless_it_is_a_package(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "images.bin").touch()
    assert holds_data(folder)
    (folder / "__init__.py").touch()
    assert not holds_data(folder)


def test_files_of_a_loggers_own_process_lie_in_the_check_and_count_where_they_were_to_lie(tmp_path, monkeypatch):
    class Service(Logger):
        name, version, log_hyperparams, log_metrics = "service", 0, print, print

        def __init__(self, save_dir="."):
            self.folder = Path(save_dir)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pytorch_lightning.loggers, "Service", Service, raising=False)
    with writing_inside(tmp_path / "run", services_only=True):
        kept, moved = CSVLogger("logs"), Service("logs")
    recording = Recording(tmp_path, tmp_path / "run")
    recording.start()
    moved.folder.mkdir(parents=True)
    (moved.folder / "record").write_text("1")
    recording.stop()
    assert kept.save_dir == "logs"
    assert [(each.path, each.is_new) for each in recording.outside([])] == [(tmp_path / "logs" / "record", False)]


def test_files_that_processes_hold_and_that_must_not_be_there_stay_where_they_are(tmp_path):
    class Own(Callback):
        def write(self, path, mode):
            with open(path, mode) as file:
                file.write("1")

    (tmp_path / "held.lock").touch()
    (tmp_path / "once").touch()
    held = (tmp_path / "held.lock").stat().st_ino
    with writing_inside(tmp_path / "run", here=tmp_path):
        Own().write(tmp_path / "held.lock", "w")
        with pytest.raises(FileExistsError):
            Own().write(tmp_path / "once", "x")
        Own().write(tmp_path / "result", "x")
    assert (tmp_path / "held.lock").stat().st_ino == held
    put_back(tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["held.lock", "once"]


def test_folders_that_are_made_with_their_parents_are_taken_away_with_them(tmp_path):
    class Own(Callback):
        def write(self, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1")

    with writing_inside(tmp_path / "run", here=tmp_path):
        Own().write(tmp_path / "of" / "a" / "machine" / "result")
    put_back(tmp_path / "run")
    assert not (tmp_path / "of").exists()


@pytest.mark.parametrize("address", ["", "file:", "file://", "sqlite:///"])
def test_store_of_runs_that_is_a_file_lies_in_the_check(tmp_path, address):
    given = []
    run = moved(
        lambda tracking_uri=None, save_dir="runs": given.extend([tracking_uri, save_dir]), {"tracking_uri"}, tmp_path
    )
    run(tracking_uri=f"{address}store/runs")
    assert given == [f"{address}{tmp_path}/elsewhere/store/runs", "runs"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:5000", "databricks", None])
def test_store_of_runs_that_is_a_server_stays_what_it_is(tmp_path, server):
    given = []
    moved(lambda tracking_uri=None: given.append(tracking_uri), {"tracking_uri"}, tmp_path)(server)
    assert given == [server]


def test_file_in_a_temporary_directory_of_another_process_is_none_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "system"))
    (tmp_path / "system").mkdir()
    (tmp_path / "project").mkdir()
    scratch = tempfile.mkdtemp()  # as a launcher makes it for what its ranks tell it
    recording = Recording(tmp_path / "project", tmp_path / "project" / "run")
    recording.start()
    for path in (Path(scratch) / "done.0", tmp_path / "system" / "result.txt"):
        path.write_text("1")
    recording.stop()
    assert [each.path.name for each in recording.outside([])] == ["result.txt"]


def test_folder_of_data_is_known_by_a_config_that_the_datamodule_keeps(tmp_path):
    for name in ("corpus", "logs"):
        (tmp_path / name).mkdir()
    config = OmegaConf.create({"data": {"dir": "corpus"}, "paths": {"log_dir": "logs"}})
    files = SimpleNamespace(
        trainer=SimpleNamespace(datamodule=SimpleNamespace(cfg=config, hparams={})), here=tmp_path, run=tmp_path / "run"
    )
    assert data(files) == [tmp_path / "corpus"]
