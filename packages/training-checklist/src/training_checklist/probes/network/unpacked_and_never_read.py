import ast
import re
from collections.abc import Iterator

from torch import Tensor

from training_checklist.instruments import Small, Step, of_function, reached, tree_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe

# What says of a sample where its values end: of an episode, a series or a text. Other parts may be of no use to a step.
ENDS = re.compile(r"(?:is_|batch_)?(?:dones?|ended|terminals?|terminated|lengths?|lens|(?:key_)?pad(?:ding)?_mask)")


def detect(step: Step, limits: Limits) -> Hits:
    for function in reached(step.pl_module, step.name):
        for name, line in never_read(tree_of(function)):
            place = of_function(function)
            yield Hit(
                f"{function.__name__} unpacks {name}, and never reads it",
                place.beside(line=place.line + line - 1),
            )


def never_read(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names, and their lines, of what is unpacked with others and read nowhere."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    for group in ast.walk(tree):
        if isinstance(group, ast.Tuple) and isinstance(group.ctx, ast.Store):
            unread = [each for each in group.elts if isinstance(each, ast.Name) and each.id not in read]
            # Where other parts are of no use either, it is a step that needs few of them, as of an agent's record.
            if all(ENDS.fullmatch(each.id) for each in unread if not each.id.startswith("_")):
                yield from ((each.id, each.lineno) for each in unread if ENDS.fullmatch(each.id))


def with_lengths(batch: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return batch[0], batch[1], (batch[0] != 0).sum(1)


class Unread(Small):
    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, labels, lengths = with_lengths(batch)  # noqa: RUF059 - which is the mistake
        return self.loss(self(inputs), labels)


class Read(Small):
    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, labels, lengths = with_lengths(batch)
        return self.loss(self(inputs) / lengths[:, None], labels)


def of_an_agent(batch: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return batch[0], batch[1], batch[1], batch[1] == 0


class Cloning(Small):
    """Imitates what an agent did; what came of it is of no use."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, labels, reward, done = of_an_agent(batch)  # noqa: RUF059
        return self.loss(self(inputs), labels)


PROBE = Probe(
    question="Does training_step read the lengths, padding masks and ends of episodes that it unpacks?",
    why="what comes after the end of a text, a series or an episode counts as if it belonged to it",
    severity=WARNING,
    may_be_wrong="the network may find the end in the values themselves",
    fix=Fix(
        "use it: a mask over what is padded, pack_padded_sequence, or (1 - done) on the value of what follows; call it "
        "_ where it is of no use here"
    ),
    detect=detect,
    faulty=Unread,
    healthy=Read,
    also_healthy=(Cloning,),
)
