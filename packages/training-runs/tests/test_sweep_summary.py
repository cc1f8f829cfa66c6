import pytest
from training_runs.sweeps.sweep_summary import MOST, draw, shown_rows


@pytest.mark.parametrize(
    ("keys", "drawn"),
    [([], set()), (["a"], {"swept_keys"}), (["a", "b", "c"], {"swept_keys", "parallel_coordinates"})],
)
def test_parallel_coordinates_are_drawn_where_more_than_two_keys_were_swept(tmp_path, keys, drawn):
    rows = [
        {"job": job, "overrides": {key: str(job) for key in keys}, "metrics": {"val/loss": job}} for job in range(3)
    ]
    draw(tmp_path / "figures", rows, keys, "val/loss", rows[0])
    assert {path.stem for path in tmp_path.glob("figures/*")} == drawn


def test_terminal_shows_the_best_jobs_of_very_many_in_their_order():
    table = [{"job": job, "val/loss": None if job == 0 else (job * 7) % 1009} for job in range(1009)]
    rows = shown_rows(table, "val/loss", "min")
    assert len(rows) == MOST
    assert [row["job"] for row in rows] == sorted(row["job"] for row in rows)
    assert {row["val/loss"] for row in rows} == set(range(1, MOST + 1))


def test_sweep_in_which_nothing_has_a_score_has_no_figure(tmp_path):
    draw(tmp_path, [], ["a"], "val/loss", None)
    assert list(tmp_path.iterdir()) == []
