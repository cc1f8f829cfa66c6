from typing import Any

import torch
from torch.optim import Optimizer

from training_checklist.instruments import FirstSteps, Small, several_steps
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = [each for each in steps.optimizers if any(of for _, of in each.forgotten)]
    if not known:
        raise CannotJudge("no optimizer counts steps in its state")
    for each in known:
        lost = [(back, of) for back, of in each.forgotten if back]
        if lost:
            back, of = lost[0]
            yield Hit(
                f"{each.name} loses its state: between two steps that of {back} of {of} parameters is thrown away "
                f"or set back, {len(lost)} times of {len(each.forgotten)}",
                Place(note=f"the state of {each.name}: a hook of the LightningModule or a callback"),
            )


class Forgetful(Small):
    forgets = True

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if self.forgets:
            self.optimizers().optimizer.state.clear()

    def configure_optimizers(self) -> Optimizer:
        return torch.optim.Adam(self.parameters())


PROBE = Probe(
    question="Does the optimizer keep its state (such as Adam's averages) from step to step?",
    why="without its averages over past gradients each step has the size of the first, whatever the slope",
    fix=Fix("leave optimizer.state alone, and build the optimizer once, in configure_optimizers"),
    detect=detect,
    faulty=several_steps(Forgetful),
    healthy=several_steps(type("Keeping", (Forgetful,), {"forgets": False})),
)
