"""Whether the figures of a run are drawn. Nothing here draws: matplotlib takes half a second to import."""

from collections.abc import Callable

in_sweep = False  # whether this process runs the jobs of a sweep


def at_end(draw: Callable[[], None], each: bool) -> None:
    """Call `draw`; not in a job of a sweep, unless `each` is true: drawing takes a second, a short job less."""
    if not waits(each):
        draw()


def waits(each: bool) -> bool:
    """Whether a job draws nothing: `eval.py` does later, of those jobs that are worth a look."""
    return in_sweep and not each
