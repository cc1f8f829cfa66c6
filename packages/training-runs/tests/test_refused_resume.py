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
    "another network": (["model=cnn"], "model=cnn"),
    "another width": (["model.net.hidden_sizes=[8]"], "model.net.hidden_sizes=[8]"),
    "another optimizer": (["optimizer=sgd"], "optimizer=sgd"),
    "another rate": (["optimizer.lr=0.5"], "optimizer.lr=0.5"),
    "another schedule": (["scheduler=cosine"], "scheduler=cosine"),
    "another split": (["data.split_seed=9"], "data.split_seed=9"),
    "another size of the validation set": (["data.val_size=700"], "data.val_size=700"),
    "another image shape": (["data.image_shape=[1,32,32]"], "data.image_shape=[1,32,32]"),
    "another metric": (["monitor=val/loss", "mode=min"], "monitor=val/loss"),
    "another way to the same": (["callbacks.checkpoint.mode=min"], "callbacks.checkpoint.mode=min"),
    "a callback that trains otherwise": (["callbacks=[checkpoint,early_stopping]"], "callbacks=[checkpoint,early_stop"),
    "a callback less": (["~callbacks.checkpoint"], "~callbacks.checkpoint"),
    "a key that nothing had": (["+trainer.gradient_clip_algorithm=norm"], "trainer.gradient_clip_algorithm=norm"),
    "another directory": (["output_dir=elsewhere"], "output_dir=elsewhere"),
}
LONGER = "trainer.max_epochs=2"


@pytest.fixture(scope="module")
def untouched(train_in, tmp_path_factory) -> Path:
    """The directory of a finished run with TensorBoard, for what is refused. Not to be changed."""
    logged = ("logger=[tensorboard,csv]", "model=mlp", LONGER)
    return train_in(tmp_path_factory.mktemp("untouched"), *TINY, *logged)


def refusal(script, run: Path, *overrides: str) -> None:
    with pytest.raises(SystemExit) as exited:
        script("train.py", f"resume='{run}'", *overrides)
    assert exited.value.code == 1


@pytest.mark.parametrize("case", REFUSED)
def test_refused_resume_leaves_every_byte_as_it_was(case, untouched, script, capsys):
    overrides, named = REFUSED[case]
    before = files(untouched), times(untouched)
    refusal(script, untouched, "trainer.max_epochs=3", *overrides)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(named)
    assert "cannot change a run that goes on: the run has " in line
    assert (files(untouched), times(untouched)) == before


@pytest.mark.parametrize("end", ["trainer.max_epochs=1", "trainer.max_epochs=0", "+trainer.max_steps=3"])
def test_run_cannot_end_before_what_it_has_trained(end, untouched, script, capsys):
    before = files(untouched), times(untouched)
    refusal(script, untouched, end)
    told = capsys.readouterr().err.splitlines()[-1]
    assert "cannot be the end of this run, which has trained" in told or "must be a whole number" in told
    assert (files(untouched), times(untouched)) == before


def test_run_whose_schedule_is_laid_out_over_its_length_is_not_made_longer(train_in, script, tmp_path, capsys):
    run = train_in(tmp_path, *TINY, "scheduler=one_cycle")
    before = files(run), times(run)
    refusal(script, run, LONGER)
    assert "is laid out over the length of training" in capsys.readouterr().err
    assert (files(run), times(run)) == before


def test_network_whose_code_has_changed_is_refused_and_nothing_is_touched(finished, script, capsys):
    saved = finished / ".hydra" / "config.yaml"
    saved.write_text(saved.read_text(encoding="utf-8").replace("- 256", "- 8"), encoding="utf-8")
    before = files(finished), times(finished)
    refusal(script, finished, LONGER, "logger=[tensorboard,csv]")
    assert (
        "belongs to another network: net.hidden.0.0.weight is (256, 784) in it and (8, 784)" in capsys.readouterr().err
    )
    assert (files(finished), times(finished)) == before


def test_best_checkpoint_is_not_replaced_by_one_that_is_judged_otherwise(finished, script, capsys):
    saved = finished / ".hydra" / "config.yaml"
    text = saved.read_text(encoding="utf-8").replace("monitor: val/accuracy\nmode: max", "monitor: val/loss\nmode: min")
    saved.write_text(text, encoding="utf-8")
    before = files(finished), times(finished)
    refusal(script, finished, LONGER)
    assert "this run's best checkpoint was judged by " in capsys.readouterr().err
    assert (files(finished), times(finished)) == before


def test_directory_of_hydra_is_that_of_the_run(untouched, script, tmp_path):
    with pytest.raises(SystemExit, match=r"goes on in the run's own directory; leave hydra\.run\.dir=\.\.\. out"):
        script("train.py", f"resume='{untouched}'", LONGER, f"hydra.run.dir='{tmp_path}/other'")
    assert not (tmp_path / "other").exists()


class LoadsLate(SingleDeviceStrategy):
    """Loads a checkpoint after the model has been set up, as FSDP does."""

    restore_checkpoint_after_setup = True


LATE = (f"+trainer.strategy._target_={__name__}.LoadsLate", "+trainer.strategy.device=cpu")
ALLOWED = (f"allow=[{__name__}]",)


@pytest.fixture
def late(train_in, tmp_path_factory) -> Path:
    """The directory of a finished run whose strategy loads late."""
    return train_in(tmp_path_factory.mktemp("late"), *TINY, *LATE)


@pytest.mark.parametrize(
    ("times_as_many", "said"),
    [
        (2, "this run was trained by 2 processes and cannot go on with 1"),
        (0, "the checkpoint is damaged: between_batches.ranks is empty"),
    ],
)
def test_refused_resume_leaves_every_byte_where_the_strategy_loads_late(late, script, capsys, times_as_many, said):
    last = late / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    ranks = content["between_batches"]["ranks"]
    content["between_batches"]["ranks"] = times_as_many * ranks[:1]
    torch.save(content, last)
    before = files(late), times(late)
    refusal(script, late, LONGER, *ALLOWED)
    assert said in capsys.readouterr().err
    assert (files(late), times(late)) == before


def test_run_goes_on_where_the_strategy_loads_late(late, script):
    script("train.py", f"resume='{late}'", LONGER, *ALLOWED)
    record = read_record(late)
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


def bit_flipped(last: Path) -> None:
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content)


def edited(last: Path, **values) -> None:
    content = torch.load(last, weights_only=True)
    torch.save({name: value for name, value in (content | values).items() if value is not None}, last)


def weights_alone(last: Path) -> None:
    edited(last, loops=None, optimizer_states=None)


def of_another_kind(last: Path) -> None:
    edited(last, epoch="one")


def diverged(last: Path) -> None:
    weights = torch.load(last, weights_only=True)["state_dict"]
    edited(last, state_dict={name: weight * float("nan") for name, weight in weights.items()})


def of_whole_numbers(last: Path) -> None:
    weights = torch.load(last, weights_only=True)["state_dict"]
    edited(last, state_dict={name: weight.long() for name, weight in weights.items()})


def lost(last: Path) -> None:
    last.unlink()


def led_nowhere(last: Path) -> None:
    last.unlink()
    last.symlink_to("/nowhere/last.ckpt")


DAMAGES = [half, bit_flipped, lost, led_nowhere, weights_alone, of_another_kind, diverged, of_whole_numbers]


@pytest.mark.parametrize("damage", DAMAGES)
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


def test_path_of_a_run_is_taken_as_it_is_printed(finished, script, evaluate, tmp_path, capsys):
    name = "it's (a), 100% {b}"
    run = tmp_path / name
    shutil.move(finished, run)
    script("train.py", f"resume={run}", "trainer.max_epochs=2")
    assert f"evaluate        python eval.py run={name}" in capsys.readouterr().out
    evaluate(f"run={run}")
    assert (read_record(run)["state"], read_record(run)["epochs"]) == ("finished", 2)


def test_key_that_the_runs_own_model_has_and_the_default_lacks_can_be_changed(script, finished):
    script("train.py", f"resume='{finished}'", "trainer.max_epochs=2", "model.net.hidden_sizes=[256]")
    assert "++model.net.hidden_sizes=[256]" in read_record(finished)["starts"][-1]["overrides"]
