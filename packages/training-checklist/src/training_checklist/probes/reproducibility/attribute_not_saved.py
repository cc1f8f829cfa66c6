import ast
from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import EVAL_MODE, KEEPING, LEFT_OUT, Example, SeededRuns, Small, reached, tree_of
from training_checklist.probe import REMARK, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

LISTED = 3


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    parting = seeded.steps.parting()
    if parting is None:
        return
    what, note = f"a resumed run goes another way in step {parting.step}", "; ".join(parting.lost[:LISTED])
    alike = f"{what}, though it is given the same batches and random numbers: {parting.what}"
    asleep = [each for each in parting.lost if each.startswith(EVAL_MODE)]
    if not parting.lost:
        if any(map(takes_the_batch, (seeded.trainer.lightning_module, *seeded.trainer.callbacks))):
            raise CannotJudge("on_train_batch_end is given the batch that the resumed run itself would have taken")
        yield Hit(
            alike,
            seeded.steps.place.beside(note="or a hook or callback around it"),
            "a step depends on something beside batch, weights, random numbers and plain attributes, and it begins "
            "anew when training is resumed",
            Fix("look at what the step reads beside the batch, and save it in on_save_checkpoint"),
            WARNING,
        )
    elif all(each.startswith(LEFT_OUT) for each in parting.lost):
        names = ", ".join(each.split(" ")[1] for each in parting.lost[:LISTED])
        begins = f"it begins with other values in {names}, which persistent=False leaves out of checkpoints"
        yield Hit(f"{what}: {parting.what}; {begins}", Place(note=note), severity=REMARK)
    elif asleep:
        yield Hit(
            f"{what}: {parting.what}; not all modules are in the mode that they were in",
            Place(note="; ".join(asleep)),
            "something puts modules into eval mode while training is going on, and a checkpoint holds no modes",
            Fix("train() after each eval() outside of validation"),
        )
    else:
        name = parting.lost[0].partition(" ")[0].rpartition(".")[2]
        yield Hit(
            f"{alike}; and values that no checkpoint holds were not the same when that step began",
            Place(note=note),
            fix=Fix(
                f"self.register_buffer({name!r}, torch.tensor(...)), or on_save_checkpoint and on_load_checkpoint; "
                "self.global_step counts the optimizer's steps and is restored"
            ),
            # A pool of former samples fills up again.
            severity=REMARK if all(" items" in each for each in parting.lost) else None,
        )


def takes_the_batch(part: Any) -> bool:
    """Whether a hook after the step, of the project's own, reads the batch."""
    hook = next(reached(part, "on_train_batch_end"), None)
    if hook is None:
        return False
    nodes = (node for node in ast.walk(tree_of(hook)) if isinstance(node, ast.Name))
    return any(node.id == "batch" and isinstance(node.ctx, ast.Load) for node in nodes)


class Counting(Small):
    """The loss depends on how many steps came before."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Any = 0

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        self.count += 1
        return super().training_step(batch, batch_idx) / (1 + self.count)


class Registered(Counting):
    def __init__(self) -> None:
        super().__init__()
        del self.count
        self.register_buffer("count", torch.tensor(0))


PROBE = Probe(
    question="Does a resumed run take the same steps as one that was not interrupted?",
    why="a checkpoint holds parameters, buffers and what state_dict() or on_save_checkpoint give it; what else a step "
    "depends on begins anew when training is resumed",
    fix=Fix("register_buffer, or on_save_checkpoint and on_load_checkpoint"),
    detect=detect,
    aliases=("reproducibility/resumed-steps-differ",),
    faulty=Example(Counting, trainer=KEEPING),
    healthy=Example(Registered, trainer=KEEPING),
)
