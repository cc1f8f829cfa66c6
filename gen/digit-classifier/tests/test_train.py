"""python train.py as a user meets it: what a run leaves behind, and that it can be repeated and resumed."""

from pathlib import Path

import pytest
import torch
from pytorch_lightning import Callback
from training_runs.records.runs import read_record

CONF = Path(__file__).parents[1] / "conf"


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def load(run: Path, name: str = "last") -> dict:
    return torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)


def same_weights(first: Path, second: Path) -> bool:
    ours, theirs = load(first)["state_dict"], load(second)["state_dict"]
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_finished_run_records_the_metrics_of_all_splits(tiny):
    record = read_record(tiny)
    assert record["state"] == "finished"
    names = {f"{split}/{name}" for split in ("train", "val", "test") for name in ("loss", "accuracy")}
    assert record["metrics"].keys() == names
    assert (record["data"], record["device"], record["epochs"], record["steps"]) == ("mnist_sample", "cpu", 1, 2)


def test_everything_written_lies_in_the_directory_of_the_run(tiny):
    folder = tiny.parents[3]
    assert [path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(tiny)] == []
    top = {".hydra", "checkpoints", "csv", "report.html", "run.json", "train.log"}
    assert {path.name for path in tiny.iterdir()} == top


@pytest.mark.parametrize("option", options("optimizer"))
def test_checkpoint_loads_without_unpickling_code_for_every_optimizer(train, option):
    [state] = load(train(f"optimizer={option}"))["optimizer_states"]
    assert state["state"]


@pytest.mark.parametrize("option", options("scheduler"))
def test_checkpoint_loads_without_unpickling_code_for_every_scheduler(train, option):
    assert len(load(train(f"scheduler={option}"))["lr_schedulers"]) == (0 if option == "none" else 1)


def test_same_seed_gives_the_same_weights_to_the_last_bit_and_another_seed_others(tiny, train):
    assert same_weights(tiny, train("seed=0"))
    assert not same_weights(tiny, train("seed=1"))


class Failure(Callback):
    """Ends a run in its third step, once."""

    due = False

    def on_train_batch_end(self, trainer, *arguments):
        if Failure.due and trainer.global_step == 3:
            Failure.due = False
            raise RuntimeError("gone")


def test_run_that_stopped_is_resumed_to_the_weights_that_it_would_have_had(train, script, tmp_path):
    longer = ["trainer.max_epochs=2", "callbacks.last_checkpoint.every_n_train_steps=1"]
    longer += [f"+callbacks.failure._target_={__name__}.Failure"]
    whole = train(*longer)
    Failure.due = True
    with pytest.raises(SystemExit):
        train(*longer)
    [stopped] = {path.parent for path in tmp_path.glob("outputs/**/run.json")} - {whole}
    assert read_record(stopped)["state"] == "failed"
    script("train.py", f"resume={stopped.as_posix()}", f"allow=[{__name__}]")
    assert read_record(stopped)["state"] == "finished"
    assert same_weights(stopped, whole)


def test_every_combination_of_a_sweep_is_a_run_of_its_own_and_all_are_in_its_report(sweep):
    runs = sweep("optimizer=adam,sgd", "optimizer.lr=0.01,0.001")
    assert [run.name for run in runs] == ["0", "1", "2", "3"]
    chosen = [[text for text in read_record(run)["overrides"] if text.startswith("optimizer")] for run in runs]
    assert chosen == [[f"optimizer={name}", f"optimizer.lr={lr}"] for name in ("adam", "sgd") for lr in (0.01, 0.001)]
    report = (runs[0].parent / "report.html").read_text(encoding="utf-8")
    assert all(f"{run.name}/report.html" in report for run in runs)
