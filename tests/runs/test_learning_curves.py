from training_runs.callbacks.learning_curves import read_curves
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
