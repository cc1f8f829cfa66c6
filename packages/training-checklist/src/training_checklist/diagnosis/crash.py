"""Where an exception arose: the module's path in the model, the line of one's own code, and the tensors at hand.

Read from the traceback after the fact. Nothing here imports torch: what was never imported cannot have raised.
"""

import ast
import inspect
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from omegaconf import DictConfig

from training_checklist.engines.own_code import is_own, shorten
from training_checklist.engines.parameter_names import shown
from training_checklist.finding import Place

MODULES = ("torch.nn.modules.module.Module",)
TENSORS = ("torch.Tensor",)
PARAMETERS = ("torch.nn.parameter.Parameter",)
LIGHTNING_MODULES = ("pytorch_lightning.core.module.LightningModule", "lightning.pytorch.core.module.LightningModule")
TRAINERS = ("pytorch_lightning.trainer.trainer.Trainer", "lightning.pytorch.trainer.trainer.Trainer")
SEQUENTIAL = ("torch.nn.modules.container.Sequential",)
WRAPPERS = ("torch.nn.parallel.distributed.DistributedDataParallel",)

LIBRARIES = {"torch", "torchvision", "pytorch_lightning", "lightning", "lightning_fabric", "torchmetrics", "hydra"}
# How torch carries an operation out, as for fake tensors, says nothing about who asked for it.
INTERNALS = ("torch._subclasses", "torch._ops", "torch._prims", "torch._refs", "torch._meta", "torch.utils._")
LIGHTNING_STEPS = ("training_step", "validation_step", "test_step", "predict_step")
SHOWN_TENSORS = 6


def is_a(thing: Any, names: tuple[str, ...]) -> bool:
    """Whether `thing` is of one of some classes, which need not be imported for that."""
    return any(f"{base.__module__}.{base.__qualname__}" in names for base in type(thing).__mro__)


@dataclass(frozen=True)
class Step:
    """One frame of a traceback: where it stood, and the source of the very expression that it was at."""

    frame: FrameType
    line: int
    expression: str

    @property
    def place(self) -> Place:
        return Place(file=shorten(self.file), line=self.line, function=self.function, source=self.source)

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename

    @property
    def function(self) -> str:
        return self.frame.f_code.co_name

    @property
    def module_name(self) -> str:
        return str(self.frame.f_globals.get("__name__", ""))

    @property
    def instance(self) -> Any:
        return self.frame.f_locals.get("self")

    @property
    def is_own(self) -> bool:
        """Whether this is code of the project."""
        return is_own(self.file) and self.module_name.partition(".")[0] not in LIBRARIES

    @property
    def source(self) -> str:
        """The line, without a comment at its end."""
        return re.sub(r"\s{2,}# .*", "", linecache.getline(self.file, self.line).strip())


class Crash:
    """What a traceback tells about an exception.

    Args:
        outer: that of the exception that this one led to, or None.

    Attributes:
        steps: all frames, the outermost first.
        own: the deepest of the project's own, or None.
        trainer: Lightning's Trainer, or None outside of it.
        root: what module paths start from: the LightningModule, else the outermost module.
        module: the deepest module of `root` that was at work, or None, as in a backward pass.
        path: its name in `root.named_modules()`.
        registered: whether it has one; a module that is kept in a list or made in a step has none.
    """

    def __init__(self, error: BaseException, outer: "Crash | None" = None) -> None:
        self.error = error
        self.outer = outer
        self.steps = [step for step in walk(error) if not step.module_name.startswith(INTERNALS)]
        self.own = next((step for step in reversed(self.steps) if step.is_own), None)
        self.trainer = next((step.instance for step in self.steps if is_a(step.instance, TRAINERS)), None)
        self.root = self._root()
        at_work = [step.instance for step in self.steps if self.is_part(step.instance)]
        self.module = at_work[-1] if at_work else None
        self.registered, self.path = self._path()

    @property
    def nearest(self) -> Step | None:
        """The deepest line of the project's own, here or where it has called what raised this."""
        return self.own if self.own is not None or self.outer is None else self.outer.nearest

    @property
    def place(self) -> Place:
        """The module, the line and the batch, as far as they are known."""
        at = self.own if self.own is not None else self.steps[-1] if self.steps else None
        # Some libraries drop the traceback of what they raise again, or have caught it in the middle of their own code.
        if self.outer is not None and (at is None or (self.own is None and self.outer.nearest is not None)):
            return self.outer.place
        line = at.place if at is not None else Place(note="no traceback")
        return line.beside(module=self.working, batch=self.local("batch_idx", int), note=line.note or self.stage)

    @property
    def working(self) -> str:
        """The module that was at work, with its type; "" of none."""
        if self.module is None:
            return ""
        kind = type(self.module).__name__
        return f"{self.path} ({kind})" if self.path and self.module is not self.root else kind

    @property
    def stage(self) -> str:
        """ "of validation_step", or "" where no step of Lightning's was at work, or it is told by the line."""
        step = next((step.function for step in self.steps if step.function in LIGHTNING_STEPS), None)
        told = self.own is not None and self.own.function == step
        return "" if step is None or told or self.local("batch_idx", int) is None else f"of {step}"

    @property
    def name(self) -> str:
        """What to call the module that was at work."""
        return self.path or (type(self.module).__name__ if self.module is not None else "this operation")

    @property
    def stages(self) -> list[str]:
        return [step.function for step in self.steps]

    @cached_property
    def config(self) -> DictConfig | None:
        """The config that the training function was given."""
        found = self.local(None, DictConfig, outermost=True)
        return found if found is not None or self.outer is None else self.outer.config

    @property
    def is_in_model(self) -> bool:
        """Whether the line of one's own lies in the model, or works on tensors itself."""
        if self.own is None:
            return False
        entry = self._entry(self.root)
        own_tensors = any(is_a(value, TENSORS) for value in self.own.frame.f_locals.values())
        return own_tensors or (self.root is not None and self.steps.index(self.own) >= entry)

    def is_part(self, thing: Any) -> bool:
        """Whether `thing` is a module that works inside `root`; a wrapper around it is none."""
        return is_a(thing, MODULES) and not is_a(thing, WRAPPERS)

    def local(self, name: str | None, kind: type, outermost: bool = False) -> Any:
        """Return the deepest local variable of a name and a kind, or None; every name if that is None."""
        for step in self.steps if outermost else reversed(self.steps):
            for key, value in step.frame.f_locals.items():
                if name in (None, key) and isinstance(value, kind):
                    return value
        return None

    def everything(self, kind: type) -> Iterator[Any]:
        """Yield the local variables of a kind, the deepest first."""
        for step in reversed(self.steps):
            yield from (value for _, value in flat_items(step.frame.f_locals) if isinstance(value, kind))

    def tensors(self) -> dict[str, Any]:
        """Return the tensors in reach of the line of one's own, then those of the library below it, by their names.

        Not parameters: Lightning has moved the model back to the CPU before anybody sees the exception.
        """
        if self.own is None:
            return {}
        start = self.steps.index(self.own)
        found: dict[int, tuple[str, Any]] = {}
        for step in self.steps[start:]:
            for name, value in flat_items(step.frame.f_locals):
                packed = step is not self.own and name.startswith(("args", "kwargs"))
                if is_a(value, TENSORS) and not is_a(value, PARAMETERS) and not packed:
                    found.setdefault(id(value), (name, value))
        return dict(found.values())

    def argument(self, *names: str) -> Any:
        """Return the tensor that the deepest function has under one of its parameters' names, or None."""
        for step in reversed(self.steps):
            for name in names:
                if is_a(step.frame.f_locals.get(name), TENSORS):
                    return step.frame.f_locals[name]
        return None

    def producer(self) -> str:
        """Return " from net.encoder", say, where it is plain what made the input of the module at work, or ""."""
        module = self.module
        for caller in reversed(self.steps[: self._entry(module)]):
            if not self.is_part(caller.instance) or caller.instance is module:
                continue
            if not is_a(caller.instance, SEQUENTIAL):
                return self._produced_by(caller) if caller.is_own else ""
            children = list(caller.instance.children())
            before = next((index for index, child in enumerate(children) if child is module), 0) - 1
            if before >= 0:
                return f" from {self.path_of(children[before])} ({type(children[before]).__name__})"
            module = caller.instance
        return ""

    def path_of(self, module: Any) -> str:
        return next((name for name, known in self.root.named_modules() if known is module), type(module).__name__)

    def made_at(self, path: str) -> str:
        """Return the line in which the project makes the module at a path, as " (model.py:31)", or ""."""
        parent_path, _, name = path.rpartition(".")
        while name:
            parent = dict(self.root.named_modules()).get(parent_path)
            for kind in type(parent).__mro__:  # a class may leave it to the one that it extends
                line = line_matching(vars(kind).get("__init__"), rf"self\.{re.escape(name)}\b[^=]*=")
                if line:
                    return f" ({line})"
            parent_path, _, name = parent_path.rpartition(".")
        return ""

    def _root(self) -> Any:
        if getattr(self.trainer, "lightning_module", None) is not None:
            return self.trainer.lightning_module
        instances = [step.instance for step in self.steps if self.is_part(step.instance)]
        return next((each for each in instances if is_a(each, LIGHTNING_MODULES)), instances[0] if instances else None)

    def _path(self) -> tuple[bool, str]:
        if self.module is None:
            return False, ""
        for name, module in self.root.named_modules():
            if module is self.module:
                return True, name
        for name, module in self.root.named_modules():
            for key, value in flat_items(vars(module)):
                if value is self.module:
                    return False, f"{name}.{key}".lstrip(".")
        return False, ""

    def _entry(self, module: Any) -> int:
        """Return which step is the first of a module's own call."""
        return next((index for index, step in enumerate(self.steps) if step.instance is module), len(self.steps))

    def _produced_by(self, caller: Step) -> str:
        """Return what made the first argument of the call at which `caller` stood."""
        try:
            call = ast.parse(caller.expression, mode="eval").body
        except SyntaxError:
            return ""
        if not isinstance(call, ast.Call) or not call.args:
            return ""
        made = ast.unparse(call.args[0])
        if isinstance(call.args[0], ast.Name):
            made = assigned(caller, call.args[0].id)
        called = re.search(r"self((?:\.\w+)+)\(", made)
        if called is None:
            return f" from {made}" if made else ""
        path = f"{self.path_of(caller.instance)}{called[1]}" if caller.instance is not self.root else called[1][1:]
        return f" from {path}" if path in dict(self.root.named_modules()) else f" from {made}"


def walk(error: BaseException) -> Iterator[Step]:
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield Step(traceback.tb_frame, traceback.tb_lineno or 0, expression_at(code, traceback.tb_lasti))
        traceback = traceback.tb_next


def expression_at(code: CodeType, instruction: int) -> str:
    """Return the source of the expression that an instruction belongs to, or ""."""
    first, last, start, end = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if None in (first, last, start, end):
        return ""
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:end]  # columns count bytes
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


def assigned(step: Step, name: str) -> str:
    """Return the right-hand side of the last assignment to `name` above the line at which a step stood, or ""."""
    for number in range(step.line - 1, step.frame.f_code.co_firstlineno, -1):
        line = linecache.getline(step.file, number).strip()
        match = re.match(rf"(?:\w+, *)*{re.escape(name)}(?:, *\w+)* *=(?!=)(.*)", line)
        if match:
            return match[1].strip()
    return ""


def flat_items(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values, those inside of lists, tuples and dicts after all others."""
    for name, value in list(values.items()):
        if not name.startswith("__"):
            yield name, value
    for name, value in list(values.items()):
        if isinstance(value, (list, tuple)):
            yield from ((f"{name}[{index}]", item) for index, item in enumerate(value[:100]))
        elif isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", item) for key, item in list(value.items())[:100])


def describe(tensors: dict[str, Any]) -> str:
    """Return shapes, dtypes and devices in one line."""
    told = (
        f"{name} {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')} {tensor.device}"
        for name, tensor in tensors.items()
    )
    return shown(told, SHOWN_TENSORS)


def line_matching(function: Any, pattern: str) -> str:
    """Return the first line of a function that a pattern is found in, as model.py:31, or ""."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
    except (TypeError, OSError):
        return ""
    found = next((number for number, line in enumerate(lines, first) if re.search(pattern, line)), None)
    return "" if found is None else f"{shorten(file)}:{found}"
