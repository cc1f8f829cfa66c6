import pytest
from training_runs.callbacks.learning_curves import best_point, read_curves
from training_runs.figures import learning_curves


def test_curves_are_the_metrics_that_validation_has(tmp_path):
    table = tmp_path / "metrics.csv"
    rows = ["step,lr,train/loss,train/loss_step,val/loss", "0,0.1,,2.5,", "4,,,,1.5", "4,,2.0,,", "9,,,,1.0"]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert read_curves(table) == {"train/loss": [(4, 2.0)], "val/loss": [(4, 1.5), (9, 1.0)]}


def test_train_and_val_of_one_metric_are_in_one_plot():
    curves = {"train/loss": [(1, 2.0), (2, 1.0)], "val/loss": [(1, 2.1), (2, 1.2)], "val/accuracy": [(1, 0.5)]}
    loss, accuracy = learning_curves(curves).axes
    assert [line.get_label() for line in loss.lines] == ["train", "val"]
    assert loss.lines[1].get_xydata().tolist() == [[1, 2.1], [2, 1.2]]
    assert (loss.get_ylabel(), accuracy.get_ylabel()) == ("loss", "accuracy")


def test_best_epoch_is_marked_at_the_monitored_metric_and_where_it_lies_in_every_plot():
    curves = {"val/loss": [(1, 2.1), (2, 1.2), (3, 1.3)], "val/accuracy": [(1, 0.5), (2, 0.7), (3, 0.6)]}
    best = best_point(curves, "val/loss", "min")
    assert best == ("val/loss", 2)
    loss, accuracy = learning_curves(curves, best).axes
    assert [line.get_label() for line in loss.lines][-1] == "best: 1.2"
    assert loss.lines[-1].get_xydata().tolist() == [[2, 1.2]]
    for axes in (loss, accuracy):
        assert [2, 2] in [list(line.get_xdata()) for line in axes.lines]


@pytest.mark.parametrize("monitor", [None, "test/accuracy"])
def test_no_epoch_is_the_best_of_what_has_no_curve(monitor):
    assert best_point({"val/loss": [(1, 2.1)]}, monitor, "max") is None


def test_best_epoch_is_never_one_whose_value_is_no_number():
    assert best_point({"val/loss": [(1, float("nan")), (2, 3.0)]}, "val/loss", "min") == ("val/loss", 2)
