from training_runs.sweeps.sweep_figures import swept_keys

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
    [means], [best] = named(rate, "mean"), named(rate, "best")
    assert means.get_xydata().tolist() == [[0.001, 0.25], [0.1, 0.65]]
    assert best.get_xydata().tolist() == [[0.1, 0.8]]
    points = [point for line in named(rate, "job") for point in line.get_xydata().tolist()]
    assert sorted(points) == [[float(job["optimizer.lr"]), score] for job, score in zip(JOBS, SCORES, strict=True)]


def test_seed_is_an_axis_where_nothing_else_was_swept():
    [axes] = swept_keys([{"seed": seed} for seed in "012"], [0.1, 0.2, 0.6], "val/accuracy", best=2).axes
    [jobs] = named(axes, "job")
    assert jobs.get_xydata().tolist() == [[0, 0.1], [1, 0.2], [2, 0.6]]


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
