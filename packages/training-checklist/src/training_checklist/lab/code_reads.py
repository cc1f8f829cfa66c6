"""What the project's own code reads of its config and logs, found in its source without running it.

Python code can reach a key in ways that no reading shows, so everything here errs towards "is read".
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from omegaconf import DictConfig

from training_checklist.engines.own_code import is_installed, is_own
from training_checklist.engines.source_trees import source_tree

MANY = 3000  # files; more of them are hardly one project's own
FOREIGN = {"site-packages", "node_modules", "__pycache__", "tests", "test", "outputs", "multirun", "build", "dist"}
WORD = re.compile(r"[A-Za-z_]\w*")
FILLED = re.compile(r"(\{\w*\}|%s)")  # where `format` or `%` put something
LEAST_SAID = 3  # letters of a name that is made while the code runs: fewer fit any name
BRACKETS = set("()[] ")
TAKEN_OFF = {"strip", "lstrip", "rstrip", "replace", "removeprefix", "removesuffix"}  # by these from a text
EVALUATED = {"literal_eval", "make_tuple"}
CONFIG = {"cfg", "config", "conf"}  # what the whole config is called
SIGNATURES = {"signature", "getfullargspec"}
LOOPS = {"items", "values", "keys"}
# Libraries that know configs as such, and no key of one.
FRAMEWORKS = {"hydra", "hydra_plugins", "omegaconf", "pytorch_lightning", "lightning", "training_config"}


@dataclass
class Code:
    """What stands in some source files.

    Args:
        files: how many were read.
        words: every name, attribute, argument and word of a string, docstrings left out.
        own_words: those of the project's own files, where `words` has those of libraries that take configs, too.
        reached: every word of a string, docstrings left out, and every attribute but for those of `self`: what a key
            may be got by.
        whole: the names that are used otherwise than as `name.attribute` or `name["key"]`.
        pairs: (name, attribute) of each `name.attribute` and `name["attribute"]`.
        supplied: keywords given in calls of Hydra's `instantiate`.
        supplies: whether such a call also gives positional arguments or `**something`.
        popped: strings given to `.pop`.
        looped: names of what is gone through by `.items()`, `.keys()` or `.values()`.
        built: last names of what is given to Hydra's `instantiate`.
        composes: whether the code writes nodes itself, with a `_target_` that it has read elsewhere.
        fits: whether a function of it reads a `_target_` and what that takes: it may leave other keys out.
        plain: the names that are read where no condition stands, in the project's own files.
        splats: (file, dotted callee, b or a) of each `callee(**cfg.b)` and `callee(**a)`.
        assigned: the keys of the config that are assigned to.
        logged: names given to `self.log`, each as a pattern.
        made: class of what is made in the code, by the attribute that keeps it: `self.val_acc = Accuracy()`.
        metrics: names of the project's own classes of metrics.
        patterns: of the names that are made while the code runs, as f"{name}_short" and "{}_short".
        parses_lists: whether the project's own files take the brackets of a text away, or evaluate texts.
        has_none_as_text: whether in the project's own files 'None' is a key of a table, or what something is compared
            with.
        logs_more: whether other names are logged, which are made while the code runs.
        loops: whether the whole config is gone through key by key.
    """

    files: int = 0
    words: set[str] = field(default_factory=set)
    own_words: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    supplied: set[str] = field(default_factory=set)
    supplies: bool = False
    popped: set[str] = field(default_factory=set)
    looped: set[str] = field(default_factory=set)
    built: set[str] = field(default_factory=set)
    composes: bool = False
    fits: bool = False
    plain: set[str] = field(default_factory=set)
    splats: set[tuple[str, str, str]] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    logged: set[str] = field(default_factory=set)
    made: dict[str, str] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    parses_lists: bool = False
    has_none_as_text: bool = False
    logs_more: bool = False
    loops: bool = False

    def names(self, key: str) -> bool:
        """Whether all words of a key stand somewhere: of "keep-best" there are two; or the code makes such a name."""
        return self.words.issuperset(WORD.findall(key)) or any(re.fullmatch(each, key) for each in self.patterns)

    def is_guarded(self, key: str) -> bool:
        """Whether a key, and not what it lies in as a whole, is read under conditions alone."""
        *above, last = key.split(".")
        return last in self.reached and last not in self.plain and self.whole.isdisjoint(above[-1:])

    def add(self, path: Path) -> None:
        """Read one source file; what does not parse is left out."""
        tree = source_tree(str(path))
        self.files += bool(tree.body)
        skipped = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                skipped.add(id(node.value))
            if isinstance(node, (ast.Attribute, ast.Subscript)) and child(node) is not None and name(node.value):
                self.pairs.add((name(node.value), child(node)))
                skipped.add(id(node.value))  # as a whole
        if is_own(str(path)):
            self.plain |= {child(node) for node in unconditional(tree)} - {None}
            self.has_none_as_text |= any(map(chooses_by_none, ast.walk(tree)))
        before, self.words = self.words, set()
        for node in ast.walk(tree):
            self._see(node, path, skipped)
        # What a function is given as **params is what its caller names, and need not be the config's `params`.
        caught = {node.kwarg.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) and node.kwarg}
        self.splats -= {each for each in self.splats if each[0] == str(path) and each[2] in caught}
        if is_own(str(path)):
            self.own_words |= self.words
        self.words |= before
        self.loops |= picks_keys(tree)
        self.fits |= not is_installed(str(path)) and any(map(fits_keys, ast.walk(tree)))

    def _see(self, node: ast.AST, path: Path, skipped: set[int]) -> None:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if name(node):
                self.words.add(name(node))
                if not isinstance(node, ast.Name) and name(node.value) != "self":
                    self.reached.add(name(node))
                if id(node) not in skipped:
                    self.whole.add(name(node))
                if isinstance(node.ctx, ast.Store) and root(node) in CONFIG:
                    self.assigned.add(name(node))
                if isinstance(node, ast.Subscript) and name(node.value) == "callback_metrics":
                    self._see_name(node.slice)
        elif isinstance(node, ast.arg):
            self.words.add(node.arg)
            self.whole.add(node.arg)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            self.words.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            found = WORD.findall(node.value)
            self.words.update(found)
            self.reached.update(found)
            self.whole.update(found)
            self._see_pattern([None if FILLED.fullmatch(each) else each for each in FILLED.split(node.value)])
        elif isinstance(node, ast.JoinedStr):
            self._see_pattern([each.value if isinstance(each, ast.Constant) else None for each in node.values])
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = (each.value if isinstance(each, ast.Constant) else None for each in (node.left, node.right))
            self._see_pattern([each if isinstance(each, str) else None for each in sides])
        elif isinstance(node, ast.ClassDef) and any(name(base) == "Metric" for base in node.bases):
            self.metrics.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            self.made |= {each.attr: name(node.value.func) for each in node.targets if isinstance(each, ast.Attribute)}
        elif isinstance(node, ast.Dict):
            written = zip(node.keys, node.values, strict=True)
            self.composes |= any(
                isinstance(key, ast.Constant) and key.value == "_target_" and not isinstance(value, ast.Constant)
                for key, value in written
            )
        elif isinstance(node, ast.Call):
            self._see_call(node, path)

    def _see_pattern(self, parts: list[str | None]) -> None:
        """Keep what a name is made of: texts, and None where something else is filled in."""
        said = "".join(part or "" for part in parts)
        if None in parts and len(said.replace("_", "")) >= LEAST_SAID and WORD.fullmatch(f"_{said}"):
            self.patterns.add("".join(r"\w+" if part is None else part for part in parts))

    def _see_call(self, node: ast.Call, path: Path) -> None:
        callee = name(node.func)
        texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        brackets = [text for text in texts if isinstance(text, str) and text.strip() and BRACKETS.issuperset(text)]
        evaluated = callee in EVALUATED or (isinstance(node.func, ast.Name) and callee == "eval")  # no module.eval()
        self.parses_lists |= is_own(str(path)) and (evaluated or (callee in TAKEN_OFF and bool(brackets)))
        owner = name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if callee in LOOPS and owner in CONFIG:
            self.loops = True
        if callee in LOOPS and isinstance(node.func, ast.Attribute):
            self.looped.add(name(node.func.value))
        if callee == "pop":
            self.popped.update(text for text in texts if isinstance(text, str))
        if callee in ("get", "pop") and texts:
            self.pairs.add((owner, str(texts[0])))
        else:
            self.whole.add(owner)
        for keyword in node.keywords:
            if keyword.arg is None and name(keyword.value):
                self.whole.add(name(keyword.value))
                self.loops |= name(keyword.value) in CONFIG
                if is_of_root(keyword.value):
                    self.splats.add((str(path), ast.unparse(node.func), name(keyword.value)))
        if callee in ("instantiate", "call"):
            self.built.update(name(argument) for argument in node.args[:1])
            self.supplied.update(keyword.arg for keyword in node.keywords if keyword.arg is not None)
            self.supplies |= len(node.args) > 1 or any(keyword.arg is None for keyword in node.keywords)
        if callee == "log" and isinstance(node.func, ast.Attribute):
            self._see_log(node)
        if callee == "log_dict":
            given = node.args[0] if node.args else None
            if isinstance(given, ast.Dict) and all(key is not None for key in given.keys):
                for key in given.keys:
                    self._see_name(key)
            else:
                self.logs_more = True

    def _see_log(self, node: ast.Call) -> None:
        given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "name"), None)
        if given is not None and ast.unparse(node.func) not in ("math.log", "np.log", "torch.log", "numpy.log"):
            self._see_name(given)

    def _see_name(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.logged.add(re.escape(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in node.values]
            self.logged.add("".join(parts))
        else:
            self.logs_more = True


def unconditional(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands under no condition, the conditions themselves among it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [node.test] if isinstance(node, (ast.If, ast.IfExp)) else ast.iter_child_nodes(node)


def chooses_by_none(node: ast.AST) -> bool:
    """Whether a node compares something with 'None', or is a table with such a key."""
    known = [node.left, *node.comparators] if isinstance(node, ast.Compare) else getattr(node, "keys", [])
    return any(isinstance(each, ast.Constant) and each.value == "None" for each in known)


def is_of_root(node: ast.AST) -> bool:
    """Whether something is a name, or a part of what is called as the whole config is."""
    return isinstance(node, ast.Name) or name(getattr(node, "value", node)) in {*CONFIG, "hparams"}


def fits_keys(node: ast.AST) -> bool:
    """Whether a function reads both a `_target_` and the signature of something."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    inner = [*ast.walk(node)]
    reads = any(isinstance(each, ast.Constant) and each.value == "_target_" for each in inner)
    return reads and any(isinstance(each, ast.Call) and name(each.func) in SIGNATURES for each in inner)


def picks_keys(tree: ast.AST) -> bool:
    """Whether the whole config is made a dict from which keys are taken that no text says: `found[each]`."""
    nodes = [*ast.walk(tree)]
    whole = {
        name(node.targets[0])
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args
        if name(node.value.func) in ("to_container", "dict", "vars") and name(node.value.args[0]) in CONFIG
    }
    return any(
        isinstance(node, ast.Subscript)
        and not isinstance(node.slice, ast.Constant)
        and name(node.value) in whole - {""}
        for node in nodes
    )


def name(node: ast.AST) -> str:
    """Return the last name of `a`, `a.b` or `a["b"]`, or "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return child(node) or ""


def root(node: ast.AST) -> str:
    """Return a of `a.b["c"]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return name(node)


def child(node: ast.AST) -> str | None:
    """Return b of `a.b` and `a["b"]`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return None


def read_code(folders: list[Path]) -> Code | None:
    """Read the sources below `folders` and those that are loaded and not installed; None where there are too many."""
    paths = set(loaded())
    for folder in folders:
        found = sources(folder)
        if found is None:
            return None
        paths.update(found)
    code = Code()
    for path in sorted(paths):
        if Path(__file__).parents[1] not in path.parents:
            code.add(path)
    return code if code.files else None


def loaded() -> Iterator[Path]:
    """Yield the files of loaded modules that nobody has installed, and of installed ones that take configs."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        if is_installed(file) and not takes_configs(module):
            continue
        if module.__name__.startswith("training_config."):  # its `instantiate` passes on what the project gives
            continue
        path = Path(file).resolve()
        if "tests" not in path.parts:
            yield path


def calls_in_code(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    """Yield the calls, with their files, of what has one of some last names, in the code of `loaded`."""
    for path in sorted(loaded()):
        for node in ast.walk(source_tree(str(path))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
                yield path, node


def takes_configs(module: ModuleType) -> bool:
    """Whether a module names OmegaConf's class: a library that reads keys of the project's config does."""
    return vars(module).get("DictConfig") is DictConfig and module.__name__.partition(".")[0] not in FRAMEWORKS


def sources(folder: Path) -> list[Path] | None:
    """Return the .py files below a folder, not going into environments, outputs, tests and hidden folders."""
    pending, seen, found = [folder.resolve()], 0, []
    while pending:
        seen += 1
        if seen > MANY or len(found) > MANY:
            return None
        try:
            entries = sorted(pending.pop().iterdir())
        except OSError:
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            if entry.is_dir():
                if entry.name not in FOREIGN:
                    pending.append(entry)
            elif entry.suffix == ".py":
                found.append(entry)
    return found
