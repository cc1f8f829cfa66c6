import pytest
from PIL import Image
from training_config.errors import ConfigError

from digit_classifier.evaluation.prediction_figures import PredictionFigures

NAMES = ("calibration", "confusion_matrix", "learning_curves", "worst_mistakes")
DRAWN = "callbacks=[checkpoint,figures]"


def test_run_has_every_figure_as_png_large_enough_to_print_and_as_svg(train):
    figures = train(DRAWN) / "figures"
    assert {path.name for path in figures.iterdir()} == {f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")}
    for name in NAMES:
        with Image.open(figures / f"{name}.png") as image:
            image.load()
            assert min(image.size) > 500
        assert "<svg" in (figures / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("override", ["figures=false", "++trainer.fast_dev_run=true"])
def test_nothing_is_drawn_where_nobody_looks(train, override):
    assert not (train(DRAWN, override) / "figures").exists()


def test_validation_is_drawn_for_a_run_without_a_test(train):
    run = train(DRAWN, "callbacks.figures.split=val", "test=false")
    assert (run / "figures" / "confusion_matrix.png").is_file()


def test_other_split_is_refused():
    with pytest.raises(ConfigError, match=r"callbacks\.figures\.split=train must be test or val"):
        PredictionFigures(enabled=True, folder="", split="train", worst=1)
