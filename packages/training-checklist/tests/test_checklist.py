import json
import re

import pytest
from omegaconf import OmegaConf
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from training_checklist.experiments.experiment import NoTraining
from training_checklist.hydra_callbacks import checklist

SMALL = ["hydra.callbacks.debug.only=[fast_dev_run,anomaly]"]


def read(run):
    return json.loads((run / "debug" / "report.json").read_text(encoding="utf-8"))


def test_every_item_has_a_row_and_a_directory(train, capsys):
    run = train("+debug=checklist", *SMALL)
    report = read(run)
    assert [(item["item"], item["verdict"]) for item in report["items"]] == [
        ("fast_dev_run", "passed"),
        ("anomaly", "passed"),
    ]
    for item in ("fast_dev_run", "anomaly"):
        assert (run / "debug" / item / "run.json").is_file()
        assert (run / "debug" / item / "output.log").read_text(encoding="utf-8")
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["steps"] == 0
    table = capsys.readouterr().out
    assert re.search(r"fast_dev_run +│ passed", table)


def test_items_that_mean_nothing_after_a_crash_are_skipped_with_the_reason(train, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        train("+debug=checklist", *SMALL, "model.net.num_classes=3")
    assert stopped.value.code == 1
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    first, second = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert (first["item"], first["verdict"]) == ("fast_dev_run", "failed")
    assert (second["item"], second["verdict"]) == ("anomaly", "skipped")
    assert "the training step itself fails, see fast_dev_run" in second["skipped"]


def test_item_that_cannot_be_started_is_told_without_secrets(train, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no access with 5ecret-0123456789")

    monkeypatch.setenv("HF_TOKEN", "5ecret-0123456789")
    monkeypatch.setattr(checklist, "run_here", refuse)
    with pytest.raises(SystemExit):
        train("+debug=checklist", *SMALL)
    [folder] = tmp_path.glob("outputs/train/*/*/debug")
    assert "RuntimeError: no access with ***" in (folder / "report.md").read_text(encoding="utf-8")
    assert "5ecret" not in (folder / "report.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("directory", "given", "keys"),
    [
        ("${run_dir}", [], ["hydra.run.dir", "run_dir"]),
        ("${paths.run}", [], ["hydra.run.dir", "paths.run"]),
        ("runs/paths", ["optimizer.lr=1", "run_dir='runs/paths'"], ["hydra.run.dir", "run_dir"]),  # of an item
        ("outputs/${now:%Y}", [], ["hydra.run.dir"]),
        ("${hydra.job.name}", [], ["hydra.run.dir"]),
        ("${lacking}", [], ["hydra.run.dir"]),
    ],
)
def test_directory_that_a_key_of_the_project_names_is_the_item_s_own(directory, given, keys):
    hydra = {"run": {"dir": directory}, "overrides": {"task": given, "hydra": []}}
    config = OmegaConf.create({"hydra": hydra, "run_dir": "runs", "paths": {"run": "runs"}})
    assert checklist.keys_of_directory(config) == keys


def test_job_of_the_checklist_itself_saves_no_checkpoint(net, data, tmp_path):
    """Where a project has one directory for all runs, those of an earlier training lie there."""
    kept = ModelCheckpoint(tmp_path, save_last=True)
    trainer = Trainer(accelerator="cpu", logger=False, max_epochs=1, callbacks=[NoTraining(), kept])
    trainer.fit(net(), datamodule=data())
    assert list(tmp_path.iterdir()) == []
    assert trainer.checkpoint_callback.best_model_path == ""
