import pytest
import torch
from PIL import Image

from {{ cookiecutter.package }}.callbacks.run_figures import RunFigures, read_curves
from {{ cookiecutter.package }}.errors import ConfigError

NAMES = ("calibration", "confusion_matrix", "learning_curves", "worst_mistakes")
DRAWN = "callbacks=[checkpoint,figures]"


def test_run_has_every_figure_as_png_and_svg(shown):
    assert {path.name for path in (shown / "figures").iterdir()} == {
        f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")
    }


@pytest.mark.parametrize("name", NAMES)
def test_figure_is_an_image_that_is_large_enough_to_print(shown, name):
    with Image.open(shown / "figures" / f"{name}.png") as image:
        image.load()
        assert min(image.size) > 500
    assert "<svg" in (shown / "figures" / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("override", ["figures=false", "++trainer.fast_dev_run=true"])
def test_nothing_is_drawn_where_nobody_looks(train, override):
    assert not (train(DRAWN, override) / "figures").exists()


def test_validation_is_drawn_for_a_run_without_a_test(train):
    run = train(DRAWN, "callbacks.figures.split=val", "test=false")
    assert (run / "figures" / "confusion_matrix.png").is_file()


def test_model_that_returns_no_probabilities_is_drawn_without_them(train, monkeypatch):
    from {{ cookiecutter.package }}.models import ImageClassifier

    monkeypatch.setattr(ImageClassifier, "test_step", lambda self, batch, batch_idx: None)
    monkeypatch.setattr(ImageClassifier, "on_test_epoch_end", lambda self: None)
    run = train(DRAWN)
    assert {path.stem for path in (run / "figures").iterdir()} == {"learning_curves"}


def test_other_split_is_refused():
    with pytest.raises(ConfigError, match=r"callbacks\.figures\.split=train must be test or val"):
        RunFigures(enabled=True, folder="", split="train", worst=1)


def test_sample_of_a_rank_is_found_in_the_whole_dataset():
    figures = RunFigures(enabled=True, folder="", split="test", worst=1)
    figures._start("test")

    class SecondOfThree:
        world_size, global_rank = 3, 1

    for size in (2, 1):
        batch = torch.zeros(size, 1, 2, 2), torch.zeros(size, dtype=torch.int64)
        figures._keep("test", SecondOfThree, torch.zeros(size, 10), batch)
    assert figures.kept["indices"].compute().tolist() == [1, 4, 7]


def test_curves_are_the_metrics_that_validation_has(tmp_path):
    table = tmp_path / "metrics.csv"
    rows = ["step,lr,train/loss,train/loss_step,val/loss", "0,0.1,,2.5,", "4,,,,1.5", "4,,2.0,,", "9,,,,1.0"]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert read_curves(table) == {"train/loss": [(4, 2.0)], "val/loss": [(4, 1.5), (9, 1.0)]}
