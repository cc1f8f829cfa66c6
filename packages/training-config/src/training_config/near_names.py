"""Names that a misspelt one may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(wrong: str, known: Iterable[object], otherwise: str = "") -> str:
    """Return "; did you mean ...?" with the nearest of `known`, else "; `otherwise` ..." with all of them, or ""."""
    names = list(dict.fromkeys(str(name) for name in known))
    near = get_close_matches(wrong, names, n=3)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {otherwise} {', '.join(names)}" if otherwise else ""
