"""Which hook of the project's own takes how much of some steps."""

import cProfile
import pstats
from pathlib import Path
from typing import Any

from training_checklist.engines.own_code import is_own, shorten
from training_checklist.engines.slow_code import BUILT_IN
from training_checklist.finding import NOWHERE, Place
from training_checklist.lightning import LightningModule

# The step itself, and hooks that it may lie in: with a closure, the optimizer takes it.
AROUND_STEP = {"training_step", "forward", "backward", "manual_backward", "optimizer_step", "step", "<lambda>"}
LOADER = str(Path("torch", "utils", "data", "dataloader.py"))


def slowest_hook(profiler: cProfile.Profile) -> tuple[float, Place]:
    """Return the greatest share of profiled time, without that of loading, that Lightning waits for one own hook."""
    known: dict[Any, Any] = pstats.Stats(profiler).stats if profiler.getstats() else {}
    lightning = str(Path(__import__(LightningModule.__module__.partition(".")[0]).__file__).parent)
    whole = sum(own for _, _, own, _, _ in known.values())
    loads = (name for name in known if name[0].endswith(LOADER) and name[2] == "__next__")
    loading = sum(known[name][3] for name in loads)
    hooks = {}
    for function, (_, _, _, _, callers) in known.items():
        file, _, name = function
        if file != BUILT_IN and is_own(file) and name not in AROUND_STEP:
            hooks[function] = sum(spent for caller, (*_, spent) in callers.items() if caller[0].startswith(lightning))
    if not hooks or whole <= loading:
        return 0.0, NOWHERE
    file, line, name = most = max(hooks, key=hooks.__getitem__)
    return hooks[most] / (whole - loading), Place(file=shorten(file), line=line, function=name)
