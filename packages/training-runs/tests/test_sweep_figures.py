from statistics import mean, stdev

import pytest
from training_runs.sweeps.sweep_figures import curves_of_jobs, parallel_coordinates, swept_keys

JOBS = [
    {"optimizer.lr": lr, "criterion._target_": f"torch.nn.{name}", "seed": seed}
    for lr in ("0.001", "0.1")
    for name in ("MSELoss", "L1Loss")
    for seed in ("0", "1")
]
SCORES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def named(axes, label):
    return [line for line in axes.lines if line.get_label() == label]


def test_metric_is_drawn_against_every_swept_key_but_the_seed():
    rate, criterion = swept_keys(JOBS, SCORES, "val/accuracy", best=7).axes
    assert [axes.get_xlabel() for axes in (rate, criterion)] == ["optimizer.lr", "criterion._target_"]
    [means], [best] = named(rate, "mean of a value"), named(rate, "best")
    assert means.get_xydata().tolist() == [[0.001, 0.25], [0.1, 0.65]]
    assert best.get_xydata().tolist() == [[0.1, 0.8]]
    points = [point for line in named(rate, "job") for point in line.get_xydata().tolist()]
    assert sorted(points) == [[float(job["optimizer.lr"]), score] for job, score in zip(JOBS, SCORES, strict=True)]


def test_jobs_that_differ_in_the_seed_alone_have_a_mean_and_a_deviation():
    rate, _ = swept_keys(JOBS, SCORES, "val/accuracy", best=7).axes
    ends = sorted(segment[:, 1].tolist() for bars in rate.collections for segment in bars.get_segments())
    middles = [mean(pair) for pair in ends]
    assert middles == pytest.approx([0.15, 0.35, 0.55, 0.75])
    assert [top - bottom for bottom, top in ends] == pytest.approx([2 * stdev([0, 0.1])] * 4)
    low, high = rate.get_ylim()
    assert all(low < bottom < top < high for bottom, top in ends)


def test_seed_is_an_axis_where_nothing_else_was_swept():
    [axes] = swept_keys([{"seed": seed} for seed in "012"], [0.1, 0.2, 0.6], "val/accuracy", best=2).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1", "2"]
    assert {line.get_linestyle() for line in named(axes, "job")} == {"None"}
    [centre] = named(axes, "mean")
    assert centre.get_ydata() == pytest.approx([0.3, 0.3])


def test_no_line_goes_through_categories():
    rate, criterion = swept_keys(JOBS, SCORES, "val/accuracy", best=7).axes
    assert {line.get_linestyle() for line in criterion.lines} == {"None"}
    assert "-" in {line.get_linestyle() for line in rate.lines}


def test_values_that_span_decades_are_on_a_logarithmic_axis_and_names_on_ticks():
    close = [job | {"optimizer.lr": "0.2"} if job["optimizer.lr"] == "0.001" else job for job in JOBS]
    rate, criterion = swept_keys(JOBS, SCORES, "val/accuracy", best=7).axes
    near, _ = swept_keys(close, SCORES, "val/accuracy", best=7).axes
    assert (rate.get_xscale(), near.get_xscale()) == ("log", "linear")
    assert [tick.get_text() for tick in criterion.get_xticklabels()] == ["MSELoss", "L1Loss"]


def test_job_without_a_value_for_a_key_is_drawn_too():
    [axes] = swept_keys([{"lr": "0.1"}, {"lr": ""}], [0.5, 0.6], "val/accuracy", best=1).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", ""]


def test_parallel_coordinates_have_a_line_for_every_setting_that_ends_at_its_mean_over_seeds():
    [axes] = parallel_coordinates(JOBS, SCORES, "val/accuracy").axes
    keys = ["optimizer.lr", "criterion._target_"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [*keys, "val/accuracy"]
    ends = [line.get_ydata()[-1] for line in axes.lines]
    assert ends == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_parallel_coordinates_take_jobs_that_all_score_the_same(tmp_path):
    parallel_coordinates(JOBS, [0.5] * len(JOBS), "val/accuracy").savefig(tmp_path / "same.png")


def test_curves_of_jobs_name_the_best_and_draw_it_last():
    [axes] = curves_of_jobs({3: [(0, 0.2), (9, 0.9)], 4: [(0, 0.1), (9, 0.5)]}, "val/accuracy", best=3).axes
    assert [line.get_ydata()[-1] for line in axes.lines] == [0.5, 0.9]
    assert [line.get_label() for line in named(axes, "best: job 3")] == ["best: job 3"]
