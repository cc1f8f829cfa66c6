import ast
from functools import cache

from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import STEPS, Call, StepListener, source_tree
from training_checklist.probe import Fix, Probe


class Dropped(StepListener):
    def after(self, call: Call) -> None:
        changes_nothing = (
            isinstance(call.result, Tensor) and hasattr(Tensor, f"{call.name}_") and "out" not in call.kwargs
        )
        if changes_nothing and call.is_own and (call.place.line, call.name) in statements(call.place.file):
            what = f"{call.name} returns a new tensor, which nobody keeps; the one that it was given stays as it is"
            self.keep(call, what)


@cache
def statements(file: str) -> set[tuple[int, str]]:
    """Return the lines of a file that do nothing but call a function or method, each with its name.

    A statement that calls another one of this name inside is none: `self.log("loss", answers.log().mean())` uses that.
    """
    found = set()
    for statement in (node for node in ast.walk(source_tree(file)) if isinstance(node, ast.Expr)):
        names = [name_of(node) for node in ast.walk(statement) if isinstance(node, ast.Call)]
        if isinstance(statement.value, ast.Call) and names.count(names[0]) == 1:
            found |= {(line, names[0]) for line in range(statement.lineno, (statement.end_lineno or 0) + 1)}
    return found


def name_of(call: ast.Call) -> str:
    """Return the name of the function or method that a call calls."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def forgetful(answers: Tensor, labels: Tensor) -> Tensor:
    answers.masked_fill(answers < 0, 0.0)
    return functional.cross_entropy(answers, labels)


def in_place(answers: Tensor, labels: Tensor) -> Tensor:
    answers.masked_fill_(answers < 0, 0.0)
    return functional.cross_entropy(answers, labels)


class Scores:
    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    def log(self, score: Tensor) -> None:
        self.kept.append(score)


def logged(answers: Tensor, labels: Tensor) -> Tensor:
    Scores().log(answers.softmax(-1).amax(-1).log())
    return functional.cross_entropy(answers, labels)


PROBE = Probe(
    question="Is the result of every out-of-place call, such as x.masked_fill(...) or x.clamp(...), assigned or used?",
    why="the line does nothing: the variant with an underscore at its end changes the tensor itself",
    fix=Fix("assign the result, x = x.masked_fill(...), or call the variant in place, x.masked_fill_(...)"),
    listener=Dropped,
    steps=STEPS,
    faulty=forgetful,
    healthy=in_place,
    also_healthy=(logged,),
)
