"""A cross-validation: each sample validates in one fold and trains in all others."""

import csv
import statistics

import pytest
import torch
from in_project import own_conftest
from training_config.errors import ConfigError
from training_runs.sampling.folds import split
from training_runs.start.feasibility import check_job


@pytest.mark.parametrize(("samples", "folds"), [(100, 5), (103, 10), (4, 4)])
def test_each_sample_validates_in_one_fold_and_trains_in_all_others(samples, folds):
    order = torch.randperm(samples)
    parts = [split(order, 1, fold, folds) for fold in range(folds)]
    assert torch.cat([val for _, val in parts]).tolist() == order.tolist()
    for train, val in parts:
        assert sorted([*train.tolist(), *val.tolist()]) == list(range(samples))
        assert samples // folds <= len(val) <= samples // folds + 1


def test_without_a_fold_the_first_samples_validate():
    train, val = split(torch.arange(10), 3, None, 5)
    assert (val.tolist(), train.tolist()) == ([0, 1, 2], [*range(3, 10)])


@pytest.mark.parametrize(("fold", "folds"), [(5, 5), (0, 1), (0, 11)])
def test_fold_that_is_not_there_is_refused(fold, folds):
    with pytest.raises(ConfigError, match=rf"fold={fold} must be from 0 to folds - 1, and folds={folds} from 2 to 10"):
        split(torch.arange(10), 3, fold, folds)


def test_fold_of_data_that_take_none_is_refused(compose):
    with pytest.raises(ConfigError, match="fold=1 chooses nothing: data takes no fold"):
        check_job(compose("fold=1", "~data.fold", "~data.folds"))


def test_sweep_over_folds_validates_by_all_images_and_sums_up(script_in, tmp_path):
    short = [text for text in own_conftest().TINY if not text.startswith("trainer.limit_val")]
    script_in(tmp_path, "train.py", "-m", *short, "++trainer.limit_val_batches=1.0", "fold=range(3)", "folds=3")
    [summary] = tmp_path.glob("multirun/*/*/*/summary.csv")
    with summary.open(newline="", encoding="utf-8") as file:
        values = [float(row["val/accuracy"]) for row in csv.DictReader(file)]
    line = f"val/accuracy {statistics.mean(values):.4f} ± {statistics.stdev(values):.4f} over 3 folds"
    assert f"- all jobs: {line}\n" in summary.with_suffix(".md").read_text(encoding="utf-8")
