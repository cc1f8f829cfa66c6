"""What a run's own curves say of it: each remark on a curve that earns it, none on its healthy twin."""

import math

import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset
from training_runs.records.runs import read_record
from training_runs.remarks.answers import ConstantAnswer, constant_answer
from training_runs.remarks.evidence import Commands, Evidence, Point, read_points
from training_runs.remarks.rules import remarks_on
from training_runs.remarks.trend import rises, scatter

ITEMS = ("anomaly", "gradients", "learning", "profile")
FALLING = (2.0, 1.0, 0.6, 0.45, 0.4, 0.42, 0.38, 0.39)


def epochs(*values: float) -> list[Point]:
    return [Point(10 * epoch + 9, epoch, value) for epoch, value in enumerate(values)]


def steps(*values: float) -> list[Point]:
    return [Point(step, step // 10, value) for step, value in enumerate(values)]


def said(metrics: dict[str, float] | None = None, **given) -> dict[str, str]:
    """What is said of a run, by id: what was seen and what comes next in one text."""
    points = {name.replace("_", "/", 1): values for name, values in given.pop("points", {}).items()}
    commands = Commands(overrides=("optimizer.lr=10",), run="outputs/train/run", items=given.pop("items", ITEMS))
    evidence = Evidence(points=points, metrics=metrics or {}, commands=commands, **given)
    return {remark.id: f"{remark.what}; {remark.next}" for remark in remarks_on(evidence)}


def test_nothing_is_said_of_a_run_without_evidence():
    assert said() == {}


def test_healthy_curves_are_silent():
    assert said(points={"train_loss": epochs(*FALLING), "val_loss": epochs(*FALLING)}, longer="x=1") == {}


def test_loss_that_is_nan_is_said_with_its_epoch_and_nothing_else_is():
    curve = epochs(2.0, 1.0, math.nan, math.nan)
    told = said({"test/accuracy": 0.1}, points={"train_loss": curve}, answers={"test": ConstantAnswer(1000, 10)})
    assert list(told) == ["not-finite"]
    assert told["not-finite"].startswith("train/loss: not a finite number from epoch 2 on; ")
    assert told["not-finite"].endswith(": python train.py optimizer.lr=10 +debug=anomaly")


def test_metric_that_lacks_a_value_at_first_is_healthy():
    assert said(points={"val_recall": epochs(math.nan, 0.5, 0.6)}) == {}
    assert list(said(points={"val_recall": epochs(0.5, 0.6, math.nan)})) == ["not-finite"]


def test_gradient_norm_that_overflows_under_a_scaler_is_healthy():
    assert said(points={"train_gradient_norm": [Point(9, None, math.inf), Point(19, None, 1.0)]}) == {}


def test_accuracy_is_held_against_the_most_common_class():
    answers = {"test": ConstantAnswer(1000, 10, (200, *[800 // 9] * 9))}
    told = said({"test/accuracy": 0.21}, answers=answers)["constant-answer"]
    assert told.startswith(
        "test/accuracy is 0.2100; the most common of 10 classes, without a look at the inputs, has 0.2"
    )
    assert told.endswith("python train.py optimizer.lr=10 +debug=learning")
    assert said({"test/accuracy": 0.25}, answers=answers) == {}


def test_accuracy_is_held_against_chance_where_labels_are_not_known():
    answers = {"val": ConstantAnswer(100, 2)}  # 0.5 ± 0.05
    assert "one of 2 classes by chance" in said({"val/accuracy": 0.64}, answers=answers)["constant-answer"]
    assert said({"val/accuracy": 0.66}, answers=answers) == {}


def test_accuracy_of_what_is_no_known_classification_is_not_judged():
    assert said({"test/accuracy": 0.1, "val/accuracy": 0.1}) == {}


def test_few_batches_need_not_learn():
    assert said({"val/accuracy": 0.1}, answers={"val": ConstantAnswer(100, 10)}, cut=True) == {}


def test_cross_entropy_is_held_against_the_entropy_of_the_classes():
    answers = {"val": ConstantAnswer(100, 2, (90, 10))}  # 0.3251
    given = {"answers": answers, "cross_entropy": True}
    told = said(points={"val_loss": epochs(0.7, 0.4, 0.33)}, **given)["constant-answer"]
    assert "val/loss is 0.3300 at best" in told
    assert "0.3251" in told
    assert said(points={"val_loss": epochs(0.7, 0.4, 0.32)}, **given) == {}
    assert said(points={"val_loss": epochs(0.7, 0.4, 0.33)}, answers=answers) == {}


def test_loss_that_training_brings_below_the_entropy_is_better_than_a_constant_answer():
    answers = {split: ConstantAnswer(100, 10) for split in ("train", "val")}  # 2.3026
    given = {"answers": answers, "cross_entropy": True}
    high, low = epochs(2.9, 2.8, 2.7), epochs(2.9, 2.5, 2.2)
    assert list(said({"val/accuracy": 0.3}, points={"val_loss": high, "train_loss": high}, **given)) == [
        "constant-answer"
    ]
    assert said({"val/accuracy": 0.3}, points={"val_loss": high, "train_loss": low}, **given) == {}


@pytest.mark.parametrize("name", ["train_loss", "val_loss"])
def test_loss_that_never_moves(name):
    told = said(points={name: epochs(2.5, 2.5, 2.5)})["never-moves"]
    assert "is 2.5 in every epoch" in told
    assert told.endswith("+debug=gradients")
    assert said(points={name: epochs(2.5, 2.5, 2.4999)}) == {}


def test_perfect_accuracy_and_a_constant_that_is_logged_may_stay():
    points = {"val_accuracy": epochs(1.0, 1.0, 1.0), "val_samples": epochs(500, 500, 500)}
    assert said(points=points, monitor="val/accuracy", mode="max") == {}


def test_best_epoch_is_the_first():
    told = said(points={"val_loss": epochs(0.5, 0.61, 0.6)})["first-is-best"]
    assert told.startswith("val/loss is best in the first of 3 epochs: 0.5000, then 0.6000 at best; ")
    assert said(points={"val_loss": epochs(0.5, 0.7)}) == {}
    assert said(points={"val_loss": epochs(0.5, 0.7, 0.6)}) == {}  # which scatters as much
    assert said(points={"val_loss": epochs(0.5, 0.5, 0.5001)}) == {}


VALIDATION = (2.0, 1.0, 0.7, 0.6, 0.7, 0.85, 0.95, 1.1)
TRAINING = (2.0, 1.0, 0.6, 0.4, 0.3, 0.2, 0.15, 0.1)


def test_validation_turns_while_training_falls():
    points = {"val_loss": epochs(*VALIDATION), "train_loss": epochs(*TRAINING)}
    told = said(points=points, monitor="val/accuracy", mode="max")["validation-turns"]
    assert told.startswith("val/loss rises after epoch 3 (0.6000 to 1.1000) while train/loss falls (0.4000 to 0.1000)")
    assert told.endswith(": python train.py optimizer.lr=10 monitor=val/loss mode=min")
    assert "the best checkpoint is the one of that epoch" in said(points=points)["validation-turns"]


def test_validation_that_only_scatters_or_that_training_follows_does_not_turn():
    level = (2.0, 1.0, 0.7, 0.6, 0.65, 0.61, 0.66, 0.62)
    assert said(points={"val_loss": epochs(*level), "train_loss": epochs(*TRAINING)}) == {}
    assert said(points={"val_loss": epochs(*VALIDATION), "train_loss": epochs(*VALIDATION)}) == {}
    assert said(points={"val_loss": epochs(*VALIDATION)}) == {}


def noisy(seed: int, count: int = 100) -> list[float]:
    """Losses of single batches that fall from 2 to 0.05, each off by a factor of about 1.3."""
    random = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return [2 * 0.025 ** (index / count) * math.exp(0.26 * value) for index, value in enumerate(random.tolist())]


def test_spikes_of_the_loss():
    losses = noisy(0)
    losses[70] = 9.0
    norms = [Point(step, None, 0.5) for step in range(0, 100, 10)]
    told = said(points={"train_loss_step": steps(*losses), "train_gradient_norm": norms})["spikes"]
    assert told.startswith("train/loss_step has a spike at step 70: 9, from a level of 0.1")
    assert told.endswith(": python train.py optimizer.lr=10 ++trainer.gradient_clip_val=0.5")


@pytest.mark.parametrize("seed", range(20))
def test_losses_of_single_batches_scatter_without_spikes(seed):
    assert said(points={"train_loss": steps(*noisy(seed))}) == {}


def test_bump_in_a_loss_that_had_fallen_before_much_was_logged_is_no_spike():
    # Of a healthy training with label smoothing, every 20th step.
    losses = [1.696, 0.921, 0.756, 0.727, 0.635, 0.664, 0.731, 0.621, 0.643, 0.608, 0.589, 0.641, 0.603, 0.587, 0.589]
    losses += [0.576, 0.580, 0.630, 0.566, 0.556, 0.551, 0.559, 0.562, 0.566, 0.572, 0.558, 0.571, 0.569, 0.573, 0.577]
    assert "spikes" not in said(points={"train_loss": steps(*losses)})


def test_outlier_of_a_loss_that_has_not_fallen_is_no_spike():
    losses = [2.0 + 0.01 * (step % 7) for step in range(100)]
    losses[70] = 2.6
    assert said(points={"train_loss": steps(*losses)}) == {}


RISING = (0.40, 0.50, 0.60, 0.68, 0.75, 0.82)


def test_run_that_still_improves_says_how_it_goes_on():
    given = {"monitor": "val/accuracy", "mode": "max", "points": {"val_accuracy": epochs(*RISING)}}
    told = said(longer="trainer.max_epochs=12", **given)["still-improving"]
    assert "0.5000 to 0.8200 over the last 5 epochs" in told
    assert told.endswith("go on: python train.py resume=outputs/train/run trainer.max_epochs=12")
    told = said(longer="trainer.max_epochs=12", scheduled=True, **given)["still-improving"]
    assert told.endswith("train longer: python train.py optimizer.lr=10 trainer.max_epochs=12")
    assert said(**given) == {}  # something else ended it


@pytest.mark.parametrize(
    "values",
    [
        (0.9,),
        (0.50, 0.60, 0.66),
        (0.50, 0.70, 0.75, 0.76, 0.75, 0.76),
        (0.50, 0.75, 0.7501, 0.7502, 0.7503, 0.7504),  # by less than anybody reports
        (0.50, 0.70, 0.72, 0.74, 0.76, 0.78),  # shares of 50 samples differ by 0.14 by chance
        (0.50, 0.70, 0.80, 0.85, 0.875, 0.8875),  # which flattens out below 0.9
    ],
)
def test_end_that_is_level_or_short_does_not_still_improve(values):
    given = {"monitor": "val/accuracy", "mode": "max", "longer": "trainer.max_epochs=12"}
    assert said(points={"val_accuracy": epochs(*values)}, answers={"val": ConstantAnswer(50, 10)}, **given) == {}


def test_loss_that_still_falls():
    assert "still-improving" in said(
        points={"val_loss": epochs(2.0, 1.9, 1.8, 1.7, 1.6)}, longer="trainer.max_epochs=8"
    )


def test_percentage_and_negative_loss_are_shown_as_they_are():
    given = {"monitor": "val/acc", "mode": "max", "longer": "x=1", "answers": {"val": ConstantAnswer(100, 10)}}
    assert "40.0000 to 80.0000" in said(points={"val_acc": epochs(40, 50, 60, 70, 80)}, **given)["still-improving"]
    assert "-0.9000, then -0.7000 at best" in said(points={"val_loss": epochs(-0.9, -0.7, -0.7)})["first-is-best"]


def test_time_spent_waiting_for_data():
    told = said(points={"train_data_wait": [Point(step, None, 0.8) for step in range(5)]})["data-wait"]
    assert told.startswith("80% of the time")
    assert told.endswith("+debug=profile")
    starting = [Point(step, None, share) for step, share in enumerate((0.9, 0.1, 0.2, 0.1))]
    assert said(points={"train_data_wait": starting}) == {}


def test_no_item_is_named_that_is_not_there():
    told = said({"val/accuracy": 0.1}, answers={"val": ConstantAnswer(100, 10)}, items=())
    assert "+debug" not in told["constant-answer"]


def test_trend_is_one_that_chance_makes_in_one_of_twenty_cases():
    assert rises([1, 2, 3, 4])  # 1 of 24
    assert not rises([1, 2, 4, 3])  # 4 of 24
    assert not rises([1, 2, 3])  # 1 of 6
    assert not rises([1, 1, 1, 1, 1])


def test_scatter_is_that_of_noise_and_not_of_a_trend():
    noise = torch.randn(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    trend = torch.linspace(0, 100, 2000, dtype=torch.float64)
    assert scatter((trend + 0.5 * noise).tolist()) == pytest.approx(0.5, rel=0.05)
    assert scatter([3.0, 2.0, 1.0]) == 0
    assert scatter([1.0, 3.0]) == pytest.approx(math.sqrt(2))


def test_labels_are_found_where_datasets_keep_them():
    data = TensorDataset(torch.zeros(6, 2), torch.tensor([0, 0, 0, 1, 1, 2]))
    assert constant_answer(DataLoader(data, 2), 3, None, False) == ConstantAnswer(6, 3, (3, 2, 1))
    assert constant_answer([DataLoader(Subset(data, [3, 4, 5]), 1)], 2, 10, False) == ConstantAnswer(2, 10, (2, 1))


def test_regression_has_no_constant_answer():
    data = TensorDataset(torch.zeros(6, 2), torch.zeros(6))
    assert constant_answer(DataLoader(data, 2), 3, None, False) is None
    assert constant_answer(None, 3, 10, True) is None


def test_metrics_csv_is_read_with_steps_and_epochs(tmp_path):
    table = tmp_path / "metrics.csv"
    table.write_text("epoch,step,lr,train/data_wait,val/loss\n,3,0.1,,\n,3,,0.5,\n0,4,,,nan\n", encoding="utf-8")
    points = read_points(table)
    assert points["train/data_wait"] == [Point(3, None, 0.5)]
    assert (points["val/loss"][0].epoch, "lr" in points) == (0, False)


WHOLE = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "callbacks=checkpoint", "logger=csv")


def test_run_with_a_learning_rate_of_10_says_that_it_learned_nothing(train_as_given, capsys):
    run = train_as_given(*WHOLE, "optimizer.lr=10")
    [remark] = read_record(run)["remarks"]
    assert remark["id"] == "constant-answer"
    assert remark["next"].endswith(f": python train.py {' '.join(WHOLE)} optimizer.lr=10 +debug=learning")
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if remark["what"] in line] == ["constant-answer"]
    assert printed.rstrip().endswith(remark["next"])
    assert "constant-answer" in (run / "report.html").read_text(encoding="utf-8")


def test_healthy_run_has_no_remark(trained):
    assert read_record(trained)["remarks"] == []


def test_job_of_a_sweep_has_one_line_and_all_in_its_record(sweep, capsys):
    jobs = sweep("optimizer=sgd", "optimizer.lr=1e30,0.01")
    [remark] = read_record(jobs[0])["remarks"]
    printed = capsys.readouterr().out
    assert printed.count(remark["what"]) == 1
    assert remark["next"] not in printed


def test_rule_that_fails_takes_nothing_from_the_run(train, capsys, monkeypatch):
    monkeypatch.setattr("training_runs.remarks.run_remarks.read_points", lambda table: table / 0)
    record = read_record(train())
    assert record["state"] == "finished"
    assert "remarks" not in record
    assert "no remarks on this run, which is a fault of training-runs: TypeError" in capsys.readouterr().out


def test_remarks_are_switched_off_by_one_key(train):
    assert "remarks" not in read_record(train("optimizer=sgd", "optimizer.lr=1e30", "remarks=false"))


def test_run_without_curves_has_no_remark(train):
    assert read_record(train("logger=tensorboard", "++trainer.limit_val_batches=0", "callbacks=[]"))["remarks"] == []


def test_remarks_of_a_run_that_goes_on_are_those_of_its_last_end(train, script):
    run = train("optimizer=sgd", "optimizer.lr=1e30")
    assert read_record(run)["remarks"]
    script("train.py", f"resume='{run}'", "trainer.max_epochs=2", "remarks=false")
    assert "remarks" not in read_record(run)
