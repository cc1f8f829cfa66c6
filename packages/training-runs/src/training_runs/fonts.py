"""Which font of this machine can write a text."""

import logging
from functools import cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

BOXES = "Last Resort"  # comes with matplotlib

log = logging.getLogger(__name__)


def choose_fonts(figure: Figure) -> None:
    """Let each text of the figure fall back on installed fonts for what its own lacks, such as Korean class names."""
    texts = figure.findobj(Text)
    written = "".join(sorted({letter for text in texts for letter in text.get_text() if not letter.isspace()}))
    families, unknown = fallbacks(written)
    if unknown:
        say_unknown(unknown)
    for text in texts if families else ():
        text.set_fontfamily([*text.get_fontfamily(), *families])


@cache
def fallbacks(written: str) -> tuple[list[str], str]:
    """Return families that have what matplotlib's own font lacks of `written`, and what no installed font has."""
    lacking = set(written) - letters(findfont(FontProperties()))
    families: list[str] = []
    # One file of each family: its weights have the same letters. Last Resort has a box for every letter there is.
    fonts = {font.name: font.fname for font in fontManager.ttflist if lacking and not font.name.startswith(BOXES)}
    while lacking and fonts:
        best = max(sorted(fonts), key=lambda name: len(lacking & letters(fonts[name])))
        if not lacking & letters(fonts[best]):
            break
        families.append(best)
        lacking -= letters(fonts.pop(best))
    return families, "".join(sorted(lacking))


@cache
def letters(file: str) -> frozenset[str]:
    return frozenset(map(chr, FT2Font(file).get_charmap()))


@cache
def say_unknown(unknown: str) -> None:
    """Say once for all figures of a run that letters are drawn as boxes."""
    has = "has it" if len(unknown) == 1 else "has them"
    log.warning("figures have boxes for %s: no font on this machine %s; install one that has", unknown, has)
