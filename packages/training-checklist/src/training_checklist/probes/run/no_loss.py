import ast

from training_checklist.instruments import Small, Stages, of_function, tree_of
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(stages: Stages, limits: Limits) -> Hits:
    if stages.first_loss is None and stages.pl_module.automatic_optimization:
        if may_skip(tree_of(type(stages.pl_module).training_step)):
            raise CannotJudge("training_step skips a batch under some condition, and the first one is such")
        what = "training_step returned None, so that Lightning skipped the batch without a word"
        yield Hit(what, of_function(type(stages.pl_module).training_step))


def may_skip(tree: ast.AST) -> bool:
    """Whether a step returns something, and under a condition nothing, as while a buffer is filled."""
    returned = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    under = [node for each in ast.walk(tree) if isinstance(each, ast.If) for node in ast.walk(each)]
    nothing = [node for node in returned if node.value is None or ast.unparse(node.value) == "None"]
    names = {node.value.id for node in returned if isinstance(node.value, ast.Name)}
    given = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names]
    begins_with_none = any(ast.unparse(node.value) == "None" for node in given)
    later = any(node in under for node in given)  # where a batch has something to learn from
    return (begins_with_none and later) or (len(nothing) < len(returned) and any(node in under for node in nothing))


class Silent(Small):
    def training_step(self, batch: list, batch_idx: int) -> None:
        self.loss(self(batch[0]), batch[1])


PROBE = Probe(
    question="Does training_step return a loss?",
    why="no gradient is computed and no weight changes in such a step",
    fix=Fix("return the loss; return None on purpose only, to skip a batch"),
    detect=detect,
    faulty=Silent,
    healthy=type("Manual", (Silent,), {"automatic_optimization": False}),
)
