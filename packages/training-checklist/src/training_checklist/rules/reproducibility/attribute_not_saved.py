from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import EVAL_MODE, LEFT_OUT, FurtherStep, FurtherSteps
from training_checklist.finding import FAILED, REMARK, Fix, Place
from training_checklist.rule import Hit, Rule

LISTED = 3


def judge(steps: FurtherSteps, limits: Any) -> Iterator[Hit]:
    parting = steps.parting()
    if parting is None or not parting.lost:
        return
    if all(each.startswith(LEFT_OUT) for each in parting.lost):
        yield Hit(
            f"a resumed run goes another way in step {parting.step}: {parting.what}; it begins with other values in "
            f"{', '.join(each.split(' ')[1] for each in parting.lost[:LISTED])}, which persistent=False leaves out of "
            "checkpoints",
            Place(note="; ".join(parting.lost[:LISTED])),
            severity=REMARK,
        )
        return
    if any(each.startswith(EVAL_MODE) for each in parting.lost):
        yield Hit(
            f"a resumed run goes another way in step {parting.step}: {parting.what}; not all modules are in the mode "
            "that they were in",
            Place(note="; ".join(each for each in parting.lost if each.startswith(EVAL_MODE))),
            "something puts modules into eval mode while training is going on, and a checkpoint holds no modes",
            Fix("train() after each eval() outside of validation"),
        )
        return
    name = parting.lost[0].partition(" ")[0].rpartition(".")[2]
    yield Hit(
        f"a resumed run goes another way in step {parting.step}, though it is given the same batches and random "
        f"numbers: {parting.what}; and values that no checkpoint holds were not the same when that step began",
        Place(note="; ".join(parting.lost[:LISTED])),
        fix=Fix(
            f"self.register_buffer({name!r}, torch.tensor(...)), or on_save_checkpoint and on_load_checkpoint; "
            "self.global_step counts the optimizer's steps and is restored"
        ),
    )


RULE = Rule(
    id="reproducibility/attribute-not-saved",
    item="reproducibility",
    question="Are all attributes and buffers that training depends on in the checkpoint?",
    why="a checkpoint holds parameters, buffers and what state_dict() or on_save_checkpoint give it; what else a step "
    "depends on begins anew when training is resumed",
    severity=FAILED,
    evidence=FurtherSteps,
    judge=judge,
    fix=Fix("register_buffer, or on_save_checkpoint and on_load_checkpoint"),
    faulty=lambda: FurtherSteps(
        [FurtherStep([], [], {"Net.t": 4}, loss=1.0)], [FurtherStep([], [], {"Net.t": 0}, loss=2.0)]
    ),
    healthy=lambda: FurtherSteps(
        [FurtherStep([], [], {"Net.t": 4}, loss=1.0)], [FurtherStep([], [], {"Net.t": 0}, loss=1.0)]
    ),
)
