"""Lightning's hooks: where a project has something of its own in them."""

from collections.abc import Sequence

from training_checklist.engines.own_code import is_own_class
from training_checklist.engines.places import of_function, of_hooks
from training_checklist.finding import Place
from training_checklist.lightning import Callback, Checkpoint, LightningModule, Trainer, is_overridden


def hooks_of(trainer: Trainer, pl_module: LightningModule, hooks: Sequence[str]) -> Place:
    """Return where module and callbacks override some hooks, but for checkpoints and the callbacks of this package."""
    own = [hook for hook in hooks if is_overridden(hook, pl_module)]
    callbacks = [
        callback
        for callback in trainer.callbacks
        if not isinstance(callback, Checkpoint)
        and not type(callback).__module__.startswith("training_checklist.")
        and any(is_overridden(hook, callback, Callback) for hook in hooks)
    ]
    callbacks = [each for each in callbacks if is_own_class(type(each))] or callbacks  # a library's are rarely to blame
    place = of_hooks(pl_module, own) if own else of_function(type(callbacks[0])) if callbacks else Place()
    names = f"callbacks {', '.join(type(callback).__name__ for callback in callbacks)}" if callbacks else ""
    return place.beside(note="; ".join(filter(None, [place.note, names])))
