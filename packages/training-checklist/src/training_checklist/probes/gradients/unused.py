from torch import Tensor, nn

from training_checklist.instruments import (
    FirstSteps,
    missing_in_part,
    owners,
    several_steps,
    shown,
    waits_its_turn,
    with_part,
)
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    groups = [*missing_in_part(steps)]
    reached = {*steps.holdings.trained} - {name for group in groups for name in group.names}
    for group in groups:
        # A bias beside a weight that is used: the step takes a slope of what it is added to, such as forces.
        cancels = all(name.endswith(".bias") and f"{name[:-4]}weight" in reached for name in group.names)
        if group.cause.how == "unused" and not waits_its_turn(steps.pl_module, owners(group.names)):
            yield Hit(
                f"{len(group.names)} of {len(steps.holdings.trained)} parameters get no gradient: {group.path}; "
                "unused: nothing that the loss is made of depends on it",
                Place(module=group.path, parameter=shown(group.names)),
                fix=Fix(f"use it, remove it, or freeze {group.path} with requires_grad_(False)"),
                severity=REMARK if cancels else group.leeway,
            )


def extra(used: bool) -> type:
    def use(part: nn.Module, answers: Tensor) -> Tensor:
        return part(answers) if used else answers

    return with_part(lambda: nn.Linear(4, 4), use)


class Later(extra(used=False)):
    """Has a part that joins after the first epoch."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(self.part(answers) if self.current_epoch > 1 else answers, labels)


PROBE = Probe(
    question="Does every trainable parameter take part in computing the loss?",
    why="they stay as they are, and DDP raises for them, unless find_unused_parameters=True",
    may_be_wrong="a part that is trained in a later phase, or that no sample of the first steps has chosen, has no "
    "gradient yet",
    fix=Fix("use it, remove it, or freeze it"),
    detect=detect,
    faulty=several_steps(extra(used=False)),
    healthy=several_steps(extra(used=True)),
    also_healthy=(several_steps(Later),),
)
