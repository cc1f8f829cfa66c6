"""Nothing is lost: a run that is refused to go on, moved or repeated keeps what it has."""

import shutil
from pathlib import Path

import pytest
import torch
from in_project import own_conftest
from pytorch_lightning import Callback
from pytorch_lightning.strategies import SingleDeviceStrategy
from training_runs.records.runs import read_record, write_record

TINY = own_conftest().TINY


def files(run: Path) -> dict[str, bytes]:
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def times(run: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}


@pytest.fixture
def finished(train_in, tmp_path, tmp_path_factory) -> Path:
    """The directory of a finished run whose network is not the default one; made for one test."""
    return train_in(tmp_path_factory.mktemp("finished"), *TINY, "model=mlp")


REFUSED = {
    "another network": (["model=cnn"], "belongs to another network: net.stage1.0.weight is not there in it and ("),
    "another width": (
        ["model=mlp", "model.net.hidden_sizes=[8]"],
        "net.hidden.0.0.weight is (256, 784) in it and (8, 784)",
    ),
    "another depth": (
        ["model=mlp", "model.net.hidden_sizes=[256,256]"],
        "net.hidden.1.0.weight is not there in it and (256, 256)",
    ),
    "another optimizer": (["optimizer=sgd"], "optimizer=sgd cannot change a run that goes on"),
    "a rate the checkpoint has": (["optimizer.lr=0.5"], "its checkpoint holds the state of optimizer; leave it out"),
    "another schedule": (["scheduler=cosine"], "its checkpoint holds the state of scheduler.scheduler"),
    "other classes": (["data.num_classes=7"], "data.class_names has 10 names but data.num_classes=7"),
    "a value that fails its check": (["trainer.max_epochs=-3"], "trainer.max_epochs=-3"),
    "a value that the data refuses": (["data.val_size=99999"], "data.val_size=99999 must lie between"),
    "a metric that nobody logs": (["monitor=val/nope"], "monitor=val/nope names a metric that is not logged"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_resume_leaves_every_byte_as_it_was(case, finished, script, capsys):
    overrides, line = REFUSED[case]
    before = files(finished)
    with pytest.raises(SystemExit) as exited:
        script("train.py", f"resume='{finished}'", "trainer.max_epochs=2", *overrides)
    assert exited.value.code == 1
    assert line in capsys.readouterr().err
    assert files(finished) == before


class LoadsLate(SingleDeviceStrategy):
    """Loads a checkpoint after the model has been set up, as FSDP does."""

    restore_checkpoint_after_setup = True


LATE = (f"+trainer.strategy._target_={__name__}.LoadsLate", "+trainer.strategy.device=cpu")


def test_refused_resume_leaves_every_byte_where_the_strategy_loads_late(finished, script, capsys):
    last = finished / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    content["between_batches"]["ranks"] *= 2
    torch.save(content, last)
    before = files(finished), times(finished)
    with pytest.raises(SystemExit):
        script("train.py", f"resume='{finished}'", "trainer.max_epochs=2", *LATE)
    assert "this run was trained by 2 processes and cannot go on with 1" in capsys.readouterr().err
    assert (files(finished), times(finished)) == before


def test_run_goes_on_where_the_strategy_loads_late(finished, script):
    script("train.py", f"resume='{finished}'", "trainer.max_epochs=2", *LATE)
    record = read_record(finished)
    assert (record["state"], record["epochs"]) == ("finished", 2)
    assert [start["epoch"] for start in record["starts"]] == [0, 1]


def test_run_does_not_go_on_with_other_data(finished, script, capsys):
    record = read_record(finished)
    write_record(finished, record | {"data": "MNIST"})
    before = files(finished)
    with pytest.raises(SystemExit):
        script("train.py", f"resume='{finished}'", "trainer.max_epochs=2")
    assert "this run was trained on MNIST and cannot go on with mnist_sample" in capsys.readouterr().err
    assert files(finished) == before


def half(last: Path) -> None:
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])


def lost(last: Path) -> None:
    last.unlink()


def led_nowhere(last: Path) -> None:
    last.unlink()
    last.symlink_to("/nowhere/last.ckpt")


@pytest.mark.parametrize("damage", [half, lost, led_nowhere])
def test_run_whose_last_checkpoint_is_damaged_or_gone_does_not_begin_anew(damage, finished, script, capsys):
    damage(finished / "checkpoints" / "last.ckpt")
    before = files(finished), times(finished)
    with pytest.raises(SystemExit) as exited:
        script("train.py", f"resume='{finished}'", "trainer.max_epochs=2")
    told = capsys.readouterr().err
    assert exited.value.code == 1
    assert "or leave resume out and start a new run" in told
    assert "Traceback" not in told
    assert (files(finished), times(finished)) == before


NOTHING_MORE = ([], ["allow=[timm.create_model]"], ["print_config=true"], ["trainer.max_epochs=1"], ["model=mlp"])


@pytest.mark.parametrize("overrides", NOTHING_MORE, ids=" ".join)
def test_finished_run_that_is_not_run_again_is_not_touched(overrides, finished, script, capsys):
    before = files(finished), times(finished)
    script("train.py", f"resume='{finished}'", *overrides)
    assert "is finished; it is not run again" in capsys.readouterr().out
    assert (files(finished), times(finished)) == before


def test_finished_job_of_a_sweep_that_goes_on_is_not_touched(script, tmp_path):
    arguments = ["-m", *TINY, "seed=1,2", f"hydra.sweep.dir='{tmp_path}/sweep'"]
    script("train.py", *arguments)
    jobs = [tmp_path / "sweep" / name for name in ("0", "1")]
    shutil.rmtree(jobs[1])
    before = files(jobs[0]), times(jobs[0])
    script("train.py", *arguments)
    assert (files(jobs[0]), times(jobs[0])) == before
    assert read_record(jobs[1])["state"] == "finished"


def best_score(run: Path) -> float:
    callbacks = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["callbacks"]
    [state] = [state for name, state in callbacks.items() if name.startswith("ModelCheckpoint")]
    assert Path(state["best_model_path"]).parent == run / "checkpoints"
    return float(state["best_model_score"])


@pytest.mark.parametrize("way", [shutil.copytree, shutil.move])
def test_run_that_was_moved_or_copied_keeps_a_best_checkpoint_that_is_better(way, finished, script, tmp_path):
    # Nothing can be better than this: no later epoch may replace the checkpoint.
    last = finished / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    [state] = [state for name, state in content["callbacks"].items() if name.startswith("ModelCheckpoint")]
    state["best_model_score"] = state["kth_value"] = torch.tensor(2.0)
    state["best_k_models"] = dict.fromkeys(state["best_k_models"], torch.tensor(2.0))
    torch.save(content, last)
    best = (finished / "checkpoints" / "best.ckpt").read_bytes()
    run = tmp_path / "elsewhere"
    way(finished, run)
    script("train.py", f"resume='{run}'", "trainer.max_epochs=2")
    assert (run / "checkpoints" / "best.ckpt").read_bytes() == best
    assert best_score(run) == 2.0
    record = read_record(run)
    assert (record["state"], record["best_checkpoint"]) == ("finished", "checkpoints/best.ckpt")


def test_rerun_of_a_run_with_a_directory_of_its_own_leaves_that_alone(script, tmp_path):
    placed = tmp_path / "placed"
    placed.mkdir()
    script("train.py", *TINY, f"output_dir='{placed}'")
    before = files(placed)
    [first] = tmp_path.glob("outputs/*/*/*/.hydra")
    (placed / ".hydra").symlink_to(first)
    script("train.py", f"rerun='{placed}'")
    (placed / ".hydra").unlink()
    assert files(placed) == before
    [record] = tmp_path.glob("outputs/*/*/*/run.json")
    assert read_record(record.parent)["rerun"]["agrees"]


@pytest.mark.parametrize("key", ["hydra.run.dir", "output_dir"])
def test_run_that_begins_anew_does_not_overwrite_another(key, finished, script, capsys):
    before = files(finished)
    with pytest.raises(SystemExit) as exited:
        script("train.py", *TINY, f"{key}='{finished}'")
    told = f"{exited.value.code}\n{capsys.readouterr().err}"
    assert "which would be overwritten" in told
    assert files(finished) == before


class Failing(Callback):
    """Fails before the second epoch, until it is repaired."""

    repaired = False

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 1 and not Failing.repaired:
            raise RuntimeError("planted")


def test_failed_job_of_a_sweep_goes_on_from_its_checkpoint(script, tmp_path, monkeypatch):
    arguments = ["-m", *TINY, "trainer.max_epochs=3", "seed=1", f"+callbacks.fail._target_={__name__}.Failing"]
    with pytest.raises(SystemExit):
        script("train.py", *arguments)
    [job] = (record.parent for record in tmp_path.glob("multirun/**/run.json"))
    assert read_record(job)["state"] == "failed"
    saved = job / ".hydra" / "config.yaml"  # conf/ may have changed since
    text = saved.read_text(encoding="utf-8")
    assert "no_progress_minutes: 10" in text
    saved.write_text(text.replace("no_progress_minutes: 10", "no_progress_minutes: 11"), encoding="utf-8")
    monkeypatch.setattr(Failing, "repaired", True)
    script("train.py", *arguments, f"hydra.sweep.dir='{job.parent}'")
    assert "no_progress_minutes: 11" in saved.read_text(encoding="utf-8")
    record = read_record(job)
    assert (record["state"], record["epochs"]) == ("finished", 3)
    assert [start["epoch"] for start in record["starts"]] == [0, 1]


def test_job_of_another_sweep_does_not_overwrite_one_that_has_a_checkpoint(script, tmp_path, capsys):
    script("train.py", "-m", *TINY, "seed=1")
    [job] = (record.parent for record in tmp_path.glob("multirun/**/run.json"))
    before = files(job)
    with pytest.raises(SystemExit):
        script("train.py", "-m", *TINY, "seed=2", f"hydra.sweep.dir='{job.parent}'")
    assert "holds another run, which would be overwritten" in capsys.readouterr().err
    assert files(job) == before


def test_sweep_after_a_continued_one_in_a_process_runs_all_its_jobs(script, tmp_path):
    script("train.py", "-m", *TINY, "seed=1")
    [job] = (record.parent for record in tmp_path.glob("multirun/**/run.json"))
    script("train.py", "-m", *TINY, "seed=1", f"hydra.sweep.dir='{job.parent}'")
    script("train.py", "-m", *TINY, "seed=1")
    assert len(list(tmp_path.glob("multirun/**/run.json"))) == 2


@pytest.mark.parametrize("name", ["it's", "a (b), c", "100% {d}"])
def test_path_of_a_run_is_taken_as_it_is_printed(name, finished, script, evaluate, tmp_path, capsys):
    run = tmp_path / name
    shutil.move(finished, run)
    script("train.py", f"resume={run}", "trainer.max_epochs=2")
    assert f"evaluate        python eval.py run={name}" in capsys.readouterr().out
    evaluate(f"run={run}")
    assert (read_record(run)["state"], read_record(run)["epochs"]) == ("finished", 2)


def test_key_that_the_runs_own_model_has_and_the_default_lacks_can_be_changed(script, finished):
    script("train.py", f"resume='{finished}'", "trainer.max_epochs=2", "model.net.hidden_sizes=[256]")
    assert "++model.net.hidden_sizes=[256]" in read_record(finished)["starts"][-1]["overrides"]


def test_class_weights_that_the_checkpoint_would_undo_are_refused(script, train_in, tmp_path, capsys):
    weights = "criterion.weight=[{},1,1,1,1,1,1,1,1,1]"
    run = train_in(tmp_path, *TINY, "+" + weights.format(2))
    before = files(run)
    with pytest.raises(SystemExit):
        script("train.py", f"resume='{run}'", "trainer.max_epochs=2", weights.format(3))
    refusal = "criterion.weight=[3,1,1,1,1,1,1,1,1,1] cannot change a run that goes on: its checkpoint holds"
    assert capsys.readouterr().err.splitlines()[-1].startswith(refusal)
    assert files(run) == before
    script("train.py", f"resume='{run}'", "trainer.max_epochs=2", weights.format(2))
