"""When the figures of a run are drawn. Nothing here draws: matplotlib takes half a second to import.

A run draws at its end. A sweep that trains its jobs one after another in its own process draws those of its best job,
when all are done: drawing takes a second, a short job less.
"""

from collections.abc import Callable

Draw = Callable[[], None]

of_job: list[Draw] = []  # of the job that runs
of_best: list[Draw] = []
in_sweep = False  # whether this process runs the jobs of a sweep


def at_end(draw: Draw, each: bool) -> None:
    """Call `draw` now; in a job of a sweep, when the sweep ends and if the job is the best, unless `each` is true.

    Args:
        draw: writes figures. What it holds is held until the sweep ends.
        each: whether every job of a sweep draws its own.
    """
    if waits(each):
        of_job.append(draw)
    else:
        draw()


def waits(each: bool) -> bool:
    """Whether what a job draws waits for the end of its sweep."""
    return in_sweep and not each


def end_job(best: bool) -> None:
    """Forget the figures of the job that has ended, or those of the best one before it."""
    if best:
        of_best[:] = of_job
    of_job.clear()


def draw_best() -> bool:
    """Draw the figures of the best job; return whether there were any."""
    drawn = bool(of_best)
    for draw in of_best:
        draw()
    of_best.clear()
    return drawn
