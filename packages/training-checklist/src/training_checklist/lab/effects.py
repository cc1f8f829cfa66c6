"""Which modules have no effect on the loss."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from training_checklist.engines.batches import as_real
from training_checklist.engines.lazy import initialized
from training_checklist.engines.own_code import is_own, is_own_class
from training_checklist.engines.parameter_names import gather, shown
from training_checklist.engines.source_trees import reached, tree_of
from training_checklist.finding import Place
from training_checklist.lab.shared import once
from training_checklist.lab.step import Step
from training_checklist.lightning import LightningModule
from training_checklist.probe import REMARK, WARNING, CannotJudge

PROGRESS = re.compile(
    r"\b(?:current_epoch|global_step|batch_idx|batch_index|epoch|step|rand|randint|random|bernoulli)\b"
)
POSTERIOR = re.compile(r"rsample|reparam|posterior|kl_div|\bkld?\b", re.I)
COUNTERS = ("current_epoch", "global_step")
LOSS = re.compile(r"l|\w*loss\w*", re.I)
MAKE = {"__init__", "setup", "configure_model", "configure_optimizers"}
LOOPS = (ast.For, ast.comprehension)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass
class WithoutEffect:
    """A module that the loss does not depend on in a training step.

    Args:
        parameters: that an optimizer holds.
        zero: whether they got gradients, all exactly 0; else they got none.
        called: whether it ran.
        with_grad: whether gradients were recorded while it ran.
        leeway: severity of it where it may be meant, None where it may not: see `leeway`.
    """

    path: str
    parameters: list[str]
    zero: bool
    called: bool
    with_grad: bool
    leeway: str | None


@once
def without_effect(step: Step) -> list[WithoutEffect]:
    """Return the modules of which no parameter got a gradient, or only zeros, and which the project's own code calls.

    Raises:
        CannotJudge: no parameter got any other gradient.
    """
    pl_module, reached = step.pl_module, step.reached
    if not any(reached.values()):
        raise CannotJudge("no gradient other than 0 has reached any parameter, which is not one module's fault")
    held: set[int] = set()
    for optimizer in step.trainer.optimizers:
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        names = (name for name, p in pl_module.named_parameters() if id(p) in own)
        # A step by hand may leave out an optimizer whose turn it is not, as of a generator beside its critic.
        if pl_module.automatic_optimization or any(reached.get(name) is not None for name in names):
            held |= own
    trained = [name for name, p in pl_module.named_parameters() if p.requires_grad and id(p) in held]
    found = []
    for zero in (False, True):
        names = [name for name in trained if reached.get(name) is (False if zero else None)]
        for path, inside in gather(names, trained):
            # A weight beside others that have gradients is not its module's failure.
            if path == inside[0] or not is_called_by_own_code(pl_module, path):
                continue
            calls = [row for row in step.modules.rows if row.path == path or row.path.startswith(f"{path}.")]
            with_grad = any(row.with_grad for row in calls)
            found.append(WithoutEffect(path, inside, zero, bool(calls), with_grad, leeway(pl_module, path)))
    return found


def leeway(pl_module: LightningModule, path: str) -> str | None:
    """Return the severity of leaving a part out of a step, where it is one of a list, of which steps may take some.

    An expert or a layer that is skipped is worth a warning. It is a remark where the code takes one by a name,
    `self.blocks[self.stage]`: another stage of the training or another batch takes another one; and where it asks for
    each of the list whether it takes it: other samples take others.
    """
    above, _, name = path.rpartition(".")[0].rpartition(".")
    if not name or not isinstance(pl_module.get_submodule(path.rpartition(".")[0]), (nn.ModuleList, nn.ModuleDict)):
        return None
    owner = pl_module.get_submodule(above)
    nodes = [*ast.walk(tree_of(type(owner)))]
    counted = {ast.unparse(each) for node in nodes if isinstance(node, LOOPS) for each in ast.walk(node.target)}
    return REMARK if any(takes_one(each, name, counted) or asks_for_each(each, name) for each in nodes) else WARNING


def takes_one(node: ast.AST, name: str, counted: set[str]) -> bool:
    """Whether a node is `self.<name>[...]` with a name in the brackets, other than those that loops go through."""
    if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != f"self.{name}":
        return False
    names = (ast.unparse(each) for each in ast.walk(node.slice) if isinstance(each, ast.Name | ast.Attribute))
    return not counted.issuperset(names)


def asks_for_each(node: ast.AST, name: str) -> bool:
    """Whether a node is a loop over `self.<name>` that calls one where a condition holds, other than on its number."""
    if not isinstance(node, ast.For):
        return False
    loop = [*ast.walk(node.iter)]
    if not any(isinstance(each, ast.Attribute) and each.attr == name for each in loop):
        return False
    taken = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
    asked = [each for each in ast.walk(node) if isinstance(each, ast.If) and calls_one(each, taken)]
    return any(not (isinstance(each.test, ast.Compare) and ast.unparse(each.test.left) in taken) for each in asked)


def calls_one(node: ast.If, names: set[str]) -> bool:
    """Whether one of some names is called under a condition, or left out by it."""
    inside = [*ast.walk(node)]
    called = {ast.unparse(each.func) for each in inside if isinstance(each, ast.Call)}
    return not called.isdisjoint(names) or any(isinstance(each, ast.Continue) for each in inside)


def speaks_of_posterior(pl_module: LightningModule) -> bool:
    """Whether the code of some module, the project's own, draws from a posterior, or has a Kullback-Leibler term."""
    kinds = {type(module) for module in pl_module.modules()}
    return any(POSTERIOR.search(ast.unparse(tree_of(kind))) for kind in kinds if is_own_class(kind))


def waits_its_turn(pl_module: LightningModule, paths: Iterable[str], called: bool = False) -> bool:
    """Whether code of the step calls each of some modules under a condition on the epoch or the number of the batch.

    Args:
        paths: of modules, or of parameters that are used as they are.
        called: whether they are called meanwhile, with no part in the loss: a condition may choose that.
    """
    return all(any(is_called_at_times(pl_module, above, called) for above in upwards(path)) for path in paths)


def is_ramped(pl_module: LightningModule, callbacks: Iterable[Any]) -> bool:
    """Whether the step multiplies by what follows its progress, or by an attribute that is 0 until it is set anew.

    So do modules that compute a loss, of which the one of an adversary begins later.
    """
    parts = [*pl_module.modules(), *callbacks]
    later = {name for name in set_later(parts) if any(is_zero(vars(part).get(name)) for part in parts)}
    own = {type(part) for part in pl_module.modules() if part is not pl_module and is_own_class(type(part))}
    for tree in map(tree_of, [*reached(pl_module, "training_step"), *own]):
        named, products = following(tree), (node for node in ast.walk(tree) if isinstance(node, ast.BinOp))
        for node in (each for each in products if isinstance(each.op, ast.Mult)):
            if follows(node, named) or not later.isdisjoint(names_in(node)):
                return True
    return False


def following(tree: ast.AST) -> set[str]:
    """Return the names of the epoch and the step, and of what some code computes from them, or sets by their value."""
    found, nodes = {*COUNTERS, "epoch", "step"}, [*ast.walk(tree)]
    for node in [*nodes, *nodes]:  # a name may be made of another one that stands further down
        asked = node.value if isinstance(node, ast.Assign) else node.test if isinstance(node, ast.If) else None
        if asked is not None and follows(asked, found):
            set_here = (each for each in ast.walk(node) if isinstance(each, ast.Name))
            found |= {each.id for each in set_here if isinstance(each.ctx, ast.Store)}
    return found


def follows(tree: ast.AST, names: set[str]) -> bool:
    """Whether an expression has one of some names in it, or asks for the epoch or the step of what trains."""
    nodes = [*ast.walk(tree)]
    counts = any(isinstance(node, ast.Attribute) and node.attr in COUNTERS for node in nodes)
    return counts or any(isinstance(node, ast.Name) and node.id in names for node in nodes)


def names_in(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def set_later(parts: Iterable[Any]) -> set[str]:
    """Return the names of attributes that a module and callbacks set elsewhere than where they are made."""
    kinds = {kind for part in parts for kind in type(part).__mro__ if is_own_class(kind)}
    functions = [node for kind in kinds for node in ast.walk(tree_of(kind)) if isinstance(node, ast.FunctionDef)]
    nodes = [node for each in functions if each.name not in MAKE for node in ast.walk(each)]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def is_zero(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
    return is_number and not isinstance(value, bool) and float(value) == 0


def owners(names: Iterable[str]) -> list[str]:
    """Return the modules of some parameters; a parameter itself where it is the root's."""
    return [name.rpartition(".")[0] or name for name in names]


def upwards(path: str) -> list[str]:
    """Return a.b.c, a.b and a."""
    names = path.split(".")
    return [".".join(names[:number]) for number in range(len(names), 0, -1)]


def turns(code: Any) -> Iterator[ast.AST]:
    """Yield what stands under conditions on the epoch, the step, the number of the batch or chance, in some code.

    A loop with such a condition on `continue` is among it, as one over layers that are skipped at random.
    """

    nodes = [*ast.walk(tree_of(code))]
    turned = {*COUNTERS, "batch_idx", "batch_index"}
    made = [each for each in nodes if isinstance(each, ast.Assign) and not turned.isdisjoint(names_in(each.value))]
    named = {target.id for each in made for target in each.targets if isinstance(target, ast.Name)}

    def is_turn(node: ast.AST) -> bool:
        is_asked = isinstance(node, (ast.If, ast.IfExp))
        return is_asked and bool(PROGRESS.search(ast.unparse(node.test)) or not named.isdisjoint(names_in(node.test)))

    for node in nodes:
        for number, each in enumerate(node.body if isinstance(node, ast.FunctionDef) else ()):
            if is_turn(each) and any(isinstance(inside, ast.Return) for inside in ast.walk(each)):
                yield from node.body[number + 1 :]  # what follows a return
        inside = ast.walk(node) if isinstance(node, ast.For) else ()
        if is_turn(node) or any(is_turn(each) and has_continue(each) for each in inside):
            yield node


def has_continue(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Continue) for each in ast.walk(node))


def is_called_at_times(pl_module: LightningModule, path: str, called: bool) -> bool:
    above, _, name = path.rpartition(".")
    for code in {*reached(pl_module, "training_step"), type(pl_module.get_submodule(above))}:
        for node in turns(code):
            within = [*ast.walk(node)]
            if any(isinstance(each, ast.Attribute) and each.attr == name for each in within):
                return True
            made = [each.id for each in within if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            if called and any(map(LOSS.fullmatch, made)):
                return True
    return False


def of_modules(modules: Sequence[WithoutEffect]) -> Place:
    """Return the place of modules that lack an effect for one reason."""
    return Place(
        module=shown(module.path for module in modules),
        parameter=shown(name for module in modules for name in module.parameters),
    )


def copied_parameters(pl_module: LightningModule) -> dict[str, set[str]]:
    """Return parameters by name with those of other modules that are copies: a baseline of earlier weights, a target.

    Modules are copies of one another where they are of one class and have the very weights.
    """
    values = {id(p): (tuple(p.shape), total(p), constant(p)) for p in initialized(pl_module.parameters())}
    alike: dict[tuple[Any, ...], list[str]] = {}
    for path, module in pl_module.named_modules():
        known = tuple(values.get(id(parameter), ((), 0.0, True)) for parameter in module.parameters())
        # A layer begins with ones and zeros as others do.
        if path and not all(is_constant for _, _, is_constant in known):
            alike.setdefault((type(module), known), []).append(path)
    found: dict[str, set[str]] = {}
    for paths in alike.values():
        for name, _ in pl_module.get_submodule(paths[0]).named_parameters():
            names = {f"{path}.{name}" for path in paths}
            for each in names if len(names) > 1 else ():
                found.setdefault(each, set()).update(names - {each})
    return found


def total(parameter: Tensor) -> float:
    real = as_real(parameter.detach())
    return float(real.double().sum())


def constant(parameter: Tensor) -> bool:
    return parameter.numel() == 0 or bool((parameter.detach() == parameter.detach().flatten()[0]).all())


def is_called_by_own_code(pl_module: LightningModule, path: str) -> bool:
    """Whether the class that decides about calling a module is the project's.

    A network that comes with a package may have parts that this task does not need: a pooler, a second head.
    """
    owner = path.rpartition(".")[0]
    while owner and isinstance(pl_module.get_submodule(owner), CONTAINERS):
        owner = owner.rpartition(".")[0]
    try:
        return is_own(inspect.getsourcefile(type(pl_module.get_submodule(owner))) or "")
    except (TypeError, OSError):  # made in a notebook or by exec
        return True
