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
    """Return the lines of a file that do nothing but call a function or method, each with its name."""
    calls = [
        node.value
        for node in ast.walk(source_tree(file))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    names = [(call, getattr(call.func, "attr", getattr(call.func, "id", ""))) for call in calls]
    return {(line, name) for call, name in names for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)}


def forgetful(answers: Tensor, labels: Tensor) -> Tensor:
    answers.masked_fill(answers < 0, 0.0)
    return functional.cross_entropy(answers, labels)


def in_place(answers: Tensor, labels: Tensor) -> Tensor:
    answers.masked_fill_(answers < 0, 0.0)
    return functional.cross_entropy(answers, labels)


PROBE = Probe(
    question="Is the result of every out-of-place call, such as x.masked_fill(...) or x.clamp(...), assigned or used?",
    why="the line does nothing: the variant with an underscore at its end changes the tensor itself",
    fix=Fix("assign the result, x = x.masked_fill(...), or call the variant in place, x.masked_fill_(...)"),
    listener=Dropped,
    steps=STEPS,
    faulty=forgetful,
    healthy=in_place,
)
