import ast
import inspect
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from training_checklist.instruments import (
    Callback,
    LightningDataModule,
    LightningModule,
    Small,
    Stages,
    is_installed,
    is_own_class,
    of_function,
    once,
    read_code,
    source_tree,
)
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe

KINDS = (LightningModule, LightningDataModule, Callback)
HOOK = re.compile(
    r"on_|configure_|transfer_|prepare_|(training|validation|test|predict|optimizer|scheduler)_step$|_dataloader$"
)
# Lightning 1's, each with what took its place.
FORMER = {
    "on_epoch_start": ["on_train_epoch_start"],
    "on_epoch_end": ["on_train_epoch_end"],
    "on_batch_start": ["on_train_batch_start"],
    "on_batch_end": ["on_train_batch_end"],
    "on_pretrain_routine_start": ["on_fit_start"],
    "on_pretrain_routine_end": ["on_fit_start"],
    "on_keyboard_interrupt": ["on_exception"],
}
CLOSE = 0.85  # of difflib: train_step and training_step have 0.87, training_step and validation_step 0.71


def detect(stages: Stages, limits: Limits) -> Hits:
    yield from like_hooks(stages.end_of_training, words(stages), stages.pl_module)


@once
def words(stages: Stages) -> set[str]:
    """Return the names in the code that is loaded, and in that of other programs beside this one."""
    program = getattr(sys.modules["__main__"], "__file__", None)
    beside = [Path(program).resolve().parent] if program is not None and not is_installed(program) else []
    code = read_code(beside) or read_code([])
    return set() if code is None else code.words


def like_hooks(things: Iterable[Any], words: set[str], trained: Any = None) -> Hits:
    """Find the methods of modules, DataModules and callbacks that are named like hooks and override none.

    Args:
        words: all names that the project's code uses; a method among them may be called by it.
        trained: the module that is trained; another LightningModule is given as the DataModule.
    """
    everywhere = set().union(*map(hooks_of, KINDS), FORMER)
    for thing in things:
        base = next((kind for kind in KINDS if isinstance(thing, kind)), None)
        if base is None:  # of the other one of Lightning's two packages, or a look-alike
            continue
        if base is LightningModule and trained is not None and thing is not trained:
            base = LightningDataModule
        known = hooks_of(base)
        own = [each for each in type(thing).__mro__ if is_own_class(each)]
        others = [each for each in type(thing).__mro__ if each not in own]
        free = known - {name for each in own for name in vars(each)}
        for owner in own:
            for name, method in vars(owner).items():
                if (
                    name in words | known
                    or not inspect.isfunction(method)
                    or any(hasattr(each, name) for each in others)
                ):
                    continue
                near = FORMER.get(name) or get_close_matches(name, sorted(free), n=2, cutoff=CLOSE)
                if (near or name.startswith("on_") or name in everywhere) and not is_made_up(name, owner):
                    elsewhere = name in everywhere - set(FORMER)
                    why_not = f"no {base.__name__} has that hook" if elsewhere else "Lightning has no such hook"
                    meant = f"; did you mean {' or '.join(near)}?" if near else ""
                    what = f"{owner.__name__}.{name} is never called: {why_not}, and no code of the project names it"
                    yield Hit(f"{what}{meant}", of_function(method))


def is_made_up(name: str, owner: type) -> bool:
    """Whether the file of a class gets a method by a name that it puts together, which this one has."""
    for node in ast.walk(tree_of_module(owner)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) > 1:
            parts = node.args[1].values if isinstance(node.args[1], ast.JoinedStr) else []
            pattern = "".join(re.escape(each.value) if isinstance(each, ast.Constant) else r"\w+" for each in parts)
            if parts and re.fullmatch(pattern, name):
                return True
    return False


def tree_of_module(owner: type) -> ast.AST:
    file = inspect.getsourcefile(owner)
    return source_tree(file) if file else ast.Module([], [])


def hooks_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if HOOK.search(name) and not name.startswith("_")}


def counting(name: str) -> type[Small]:
    """Make a LightningModule that counts in a method of some name."""

    def count(self: LightningModule) -> None:
        self.count = getattr(self, "count", 0) + 1

    return type("Counting", (Small,), {name: count})


class Phased(Small):
    """Calls a method by a name that it puts together."""

    def on_train_epoch_start(self) -> None:
        for phase in ("first",):
            getattr(self, f"on_{phase}_phase")()

    def on_first_phase(self) -> None:
        self.phase = 1


PROBE = Probe(
    question="Does Lightning call every method that is named, or nearly named, like one of its hooks?",
    why="hooks are looked up by name, and nothing is said of a name that Lightning does not know",
    severity=WARNING,
    fix=Fix("give it the name that Lightning calls, or remove it"),
    detect=detect,
    faulty=counting("on_train_epoch_begin"),
    healthy=counting("on_train_epoch_start"),
    also_healthy=(Phased,),
)
