"""Figures are readable in the languages that names are written in."""

import warnings

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from training_runs import fonts
from training_runs.figures import save

NAME = "Stripes Only"
LETTERS = "줄무"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A font that has two Korean letters, as if it were installed."""
    pen = TTGlyphPen(None)
    for move, point in zip((pen.moveTo, pen.lineTo, pen.lineTo), ((0, 0), (500, 0), (0, 500)), strict=True):
        move(point)
    pen.closePath()
    builder = FontBuilder(unitsPerEm=1000)
    builder.setupGlyphOrder([".notdef", "letter"])
    builder.setupCharacterMap({ord(letter): "letter" for letter in LETTERS})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "letter": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "letter": (600, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": NAME, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "font.ttf")
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    fontManager.addfont(tmp_path / "font.ttf")
    fonts.fallbacks.cache_clear()
    yield
    fonts.fallbacks.cache_clear()


def drawn(title):
    figure = Figure()
    figure.subplots().set_title(title)
    return figure


def family(figure):
    return figure.axes[0].title.get_fontfamily()


@pytest.fixture(autouse=True)
def afresh():
    fonts.say_unknown.cache_clear()


def test_text_falls_back_on_an_installed_font_that_has_its_letters(installed, tmp_path, caplog):
    figure = drawn("a 줄무 b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(figure, tmp_path / "figure")
    assert family(figure)[-1] == NAME
    assert caplog.text == ""


def test_letters_that_no_font_has_are_said_once_for_all_figures(installed, tmp_path, caplog):
    for name in ("one", "two"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            save(drawn("줄무늬"), tmp_path / name)
    [record] = caplog.records
    assert record.getMessage() == "figures have boxes for 늬: no font on this machine has it; install one that has"


def test_plain_letters_keep_their_font(tmp_path):
    figure = drawn("val/loss ± 0.1")
    before = family(figure)
    save(figure, tmp_path / "figure")
    assert family(figure) == before
