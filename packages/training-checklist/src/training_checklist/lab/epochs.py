"""Two short epochs of a training, as the callbacks and listeners of probes see them."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partialmethod
from types import CodeType
from typing import Any

from training_checklist.engines.around_step import around_step
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import Places
from training_checklist.engines.tracer import Listener, Tracer
from training_checklist.finding import Place
from training_checklist.lab.listeners import Listeners
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import Callback, is_overridden

HOOKS = ("on_train_epoch_start", "on_train_batch_start", "on_train_batch_end", "on_validation_epoch_start")
HOOKS += ("on_validation_batch_start", "on_validation_batch_end", "on_validation_end")


class EpochListener(Callback, Listener):
    """A probe's own callback in two epochs; `before` and `after` are told of the operations of validation steps.

    Its hooks, which are those of HOOKS, come after those of all other callbacks.

    Attributes:
        watching: what is put back when the epochs are over.
        failure: what a look at a call of the project has raised, after which nothing more is looked at.
    """

    failure: Exception | None = None

    def __init__(self, run: TwoEpochs) -> None:
        self.run, self.watching = run, ExitStack()
        self._around: CodeType | None = None  # what stands around calls of the project

    def before_log(self, look: Callable[[str, Any, dict[str, Any]], None]) -> None:
        """Let a function look at name, value and options of each call of the module's `self.log`."""
        module = self.run.pl_module
        inner = module.log

        def log(name: str, value: Any, *arguments: Any, **options: Any) -> None:
            self.safely(look, name, value, options)
            pass_on(inner, name, value, *arguments, **options)

        self._around = log.__code__
        self.watching.callback(put(module, "log", log))

    def safely(self, look: Callable[..., None], *arguments: Any, **options: Any) -> None:
        """Look at a call of the project, which goes on where that fails: the probe learns it when it asks."""
        if self.failure is None:
            try:
                look(*arguments, **options)
            except Exception as error:
                self.failure = error

    def caller(self) -> Place:
        """Return where the project makes the call that is looked at now."""
        return Places(self.run.pl_module).here(outside=self._around)


class Epochs(Callback):
    """Tells the listeners of probes of two epochs.

    Args:
        kinds: their classes.
    """

    def __init__(self, run: TwoEpochs, kinds: Iterable[type[EpochListener]]) -> None:
        self.listeners, self.watching = Listeners(kinds, run), ExitStack()
        for each in self.listeners.made.values():
            self.watching.callback(each.watching.close)
        if is_overridden("validation_step", run.pl_module):
            tracer = Tracer(run.pl_module, self.listeners)
            self.watching.enter_context(around_step(run.pl_module, tracer, step="validation_step"))

    def tell(self, hook: str, *told: Any) -> None:
        self.listeners.tell(hook, *told)


for hook in HOOKS:
    setattr(Epochs, hook, partialmethod(Epochs.tell, hook))
