import pytest
from training_runs.sweeps.sweep_summary import draw


@pytest.mark.parametrize(
    ("keys", "drawn"),
    [([], set()), (["a"], {"swept_keys"}), (["a", "b", "c"], {"swept_keys", "parallel_coordinates"})],
)
def test_parallel_coordinates_are_drawn_where_more_than_two_keys_were_swept(tmp_path, keys, drawn):
    rows = [{"overrides": {key: str(job) for key in keys}, "metrics": {"val/loss": job}} for job in range(3)]
    draw(tmp_path, rows, keys, "val/loss", rows[0])
    assert {path.stem for path in tmp_path.iterdir()} == drawn


def test_sweep_in_which_nothing_has_a_score_has_no_figure(tmp_path):
    draw(tmp_path, [], ["a"], "val/loss", None)
    assert list(tmp_path.iterdir()) == []
