"""Which line of the project has put a module into eval mode, from before anything is built."""

from functools import wraps
from typing import Any, ClassVar

from hydra.experimental.callback import Callback
from torch import nn

from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import here_and_outwards, kind, of_frame
from training_checklist.finding import NOWHERE, Place


class Switches:
    """While it is entered, knows which line of the project has put a module into eval mode.

    Attributes:
        by: the line, by id of the module; none of modules that have been put into training mode since.
    """

    def __init__(self) -> None:
        self.by: dict[int, Place] = {}

    def __enter__(self) -> "Switches":
        self._train = train = nn.Module.train

        @wraps(train)
        def switch(module: nn.Module, mode: bool = True) -> nn.Module:
            place = NOWHERE if mode else own_line()
            self.by.pop(id(module), None)
            if place.line:
                self.by[id(module)] = place
            return pass_on(train, module, mode)

        nn.Module.train = switch
        return self

    def __exit__(self, *error: object) -> None:
        nn.Module.train = self._train


class ModeSwitches(Callback):
    """Hydra's callback that watches them for as long as a job lasts."""

    current: ClassVar[Switches | None] = None

    def on_job_start(self, config: Any, **kwargs: Any) -> None:
        ModeSwitches.current = Switches().__enter__()

    def on_job_end(self, config: Any, job_return: Any, **kwargs: Any) -> None:
        if ModeSwitches.current is not None:
            ModeSwitches.current.__exit__()
            ModeSwitches.current = None


def own_line() -> Place:
    """Return the line of the project that asks for it, nowhere where Lightning does, as around validation."""
    for frame, _ in here_and_outwards():
        if kind(frame.f_code.co_filename) == "own":
            return of_frame(frame)
        if frame.f_globals.get("__name__", "").startswith(("pytorch_lightning.", "lightning.")):
            break
    return NOWHERE
