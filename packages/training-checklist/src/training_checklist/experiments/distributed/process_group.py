"""Short time-outs for the process group of training, and a rank that dies does not take the report with it."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from subprocess import Popen
from typing import Any

from torch import distributed

from training_checklist.engines.own_code import pass_on
from training_checklist.lightning import part

subprocess_script = part("strategies.launchers.subprocess_script")


class ProcessGroup:
    """While it is entered, the process group forms under watch.

    Args:
        arrive: is called before the group forms with the number of its processes, and returns its time-out in seconds.
        children: gets the ranks that Lightning starts from this one.
    """

    def __init__(self, arrive: Callable[[int], float], children: list[Popen]) -> None:
        self.arrive, self.children = arrive, children
        self.entered = False

    def __enter__(self) -> None:
        self.entered = True
        # The level was read when torch was imported, which may have been before the environment was set.
        distributed.set_debug_level_from_env()
        self.init = init = distributed.init_process_group

        @wraps(init)
        def short_init(*arguments: Any, **options: Any) -> None:
            bound = inspect.signature(init).bind(*arguments, **options)
            limit = timedelta(seconds=self.arrive(bound.arguments.get("world_size", 1)))
            bound.arguments["timeout"] = min(bound.arguments.get("timeout") or limit, limit)
            pass_on(init, *bound.args, **bound.kwargs)

        distributed.init_process_group = short_init
        # Lightning 2.6 kills this process too as soon as it sees that a rank has failed.
        self.observe = getattr(subprocess_script, "_launch_process_observer", None)
        if self.observe is not None:
            subprocess_script._launch_process_observer = self.children.extend

    def __exit__(self, *error: object) -> None:
        if not self.entered:
            return
        self.entered = False
        distributed.init_process_group = self.init
        if self.observe is not None:
            subprocess_script._launch_process_observer = self.observe
