from training_runs.sweeps.sweep_figures import parallel_coordinates, swept_keys

JOBS = [
    {"optimizer.lr": lr, "criterion._target_": f"torch.nn.{name}", "seed": seed}
    for lr in ("0.001", "0.1")
    for name in ("MSELoss", "L1Loss")
    for seed in ("0", "1")
]
SCORES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_metric_is_drawn_against_every_swept_key():
    rate, criterion, seed = swept_keys(JOBS, SCORES, "val/accuracy", best=7).axes
    assert [axes.get_xlabel() for axes in (rate, criterion, seed)] == list(JOBS[0])
    means, points, best = rate.lines
    assert means.get_xydata().tolist() == [[0.001, 0.25], [0.1, 0.65]]
    assert points.get_xdata().tolist() == [float(job["optimizer.lr"]) for job in JOBS]
    assert best.get_xydata().tolist() == [[0.1, 0.8]]


def test_values_that_span_decades_are_on_a_logarithmic_axis_and_names_on_ticks():
    rate, criterion, seed = swept_keys(JOBS, SCORES, "val/accuracy", best=7).axes
    assert (rate.get_xscale(), seed.get_xscale()) == ("log", "linear")
    assert [tick.get_text() for tick in criterion.get_xticklabels()] == ["MSELoss", "L1Loss"]


def test_job_without_a_value_for_a_key_is_drawn_too():
    [axes] = swept_keys([{"lr": "0.1"}, {"lr": ""}], [0.5, 0.6], "val/accuracy", best=1).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", ""]


def test_parallel_coordinates_have_a_line_for_every_job_that_ends_at_its_metric():
    [axes] = parallel_coordinates(JOBS, SCORES, "val/accuracy").axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [*JOBS[0], "val/accuracy"]
    ends = [line.get_ydata()[-1] for line in axes.lines]
    assert len(ends) == len(JOBS)
    assert (ends[0], ends[-1]) == (0, 1)


def test_parallel_coordinates_take_jobs_that_all_score_the_same(tmp_path):
    parallel_coordinates(JOBS, [0.5] * len(JOBS), "val/accuracy").savefig(tmp_path / "same.png")
