"""Listeners of probes, which are told what a run does while it is watched."""

from collections.abc import Iterable
from typing import Any

from training_checklist.engines.tracer import Call, Listener


class Listeners(Listener):
    """Tells the listeners of probes. One that fails is told nothing more, and its probes learn it when they ask.

    Args:
        kinds: their classes.
        subject: what each is made with.
    """

    def __init__(self, kinds: Iterable[type[Listener]], subject: Any) -> None:
        self.made: dict[type, Any] = {}
        self.failed: dict[type, Exception] = {}
        for kind in dict.fromkeys(kinds):
            try:
                self.made[kind] = kind(subject)
            except Exception as error:
                self.failed[kind] = error

    def before(self, call: Call) -> None:
        self.tell("before", call)

    def after(self, call: Call) -> None:
        self.tell("after", call)

    def tell(self, method: str, *told: Any) -> None:
        """Call a method of each."""
        for kind, listener in self.made.items():
            if kind not in self.failed:
                try:
                    getattr(listener, method)(*told)
                except Exception as error:
                    self.failed[kind] = error

    def heard(self, kind: type[Listener]) -> Any:
        """Return the listener of a class.

        Raises:
            Exception: that the listener has raised.
        """
        failed = self.failed.get(kind) or getattr(self.made[kind], "failure", None)
        if failed is not None:
            raise failed
        return self.made[kind]
