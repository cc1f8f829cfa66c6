"""Whether the figures of a run are drawn. Nothing here draws: matplotlib takes half a second to import."""

from typing import Literal

in_sweep = False  # whether this process runs the jobs of a sweep


def wanted(figures: bool | Literal["each"]) -> bool:
    """Whether a run draws its `figures`; a job of a sweep does for "each" alone: drawing takes longer than a short job.

    `eval.py run=` draws those of a job later.
    """
    return figures == "each" if in_sweep else bool(figures)
