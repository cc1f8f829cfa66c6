import copy
from typing import Any

from training_checklist.instruments import Small, WholeTraining, ends, looked_at
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(training: WholeTraining, limits: Limits) -> Hits:
    reasons = []
    for index, optimizer in enumerate(training.optimizers):
        steps = [look.steps[index] for look in training.looked if index in look.steps]
        try:
            _, last = ends(steps)
        except CannotJudge as reason:
            reasons.append(reason)
            continue
        if any(step.moved or step.gradient == 0 or step.rate == 0 for step in last):
            continue
        since = next((step.step for step in reversed(steps) if step.moved), steps[0].step)
        rate = f" at lr={last[-1].rate:g}" if last[-1].rate is not None else ""
        what = f"no weight of {optimizer} is another one from step {since} to step {last[-1].step}, though "
        what += f"gradients of norm {last[-1].gradient:.3g} come to it{rate}"
        if all(step.ratio for step in last):
            yield Hit(
                f"{what}: each step moves them, by {last[-1].ratio:.1e} of their norm in the last one, and before the "
                "next they are what they were",
                fix=Fix("look for what loads, copies or averages weights between steps: a callback, a hook"),
            )
        else:
            yield Hit(f"{what}: steps move them by exactly 0")
    if reasons and len(reasons) == len(training.optimizers):
        raise reasons[0]


class PutBack(Small):
    """Loads the weights of some step after each later one."""

    until = 999

    def on_train_batch_end(self, outputs: Any, batch: list, batch_idx: int) -> None:
        if self.global_step == 8:
            self.kept = copy.deepcopy(self.state_dict())
        elif 8 < self.global_step < self.until:
            self.load_state_dict(self.kept)


PROBE = Probe(
    question="Do weights keep changing for as long as they have gradients?",
    why="training has ended there, whatever the run goes on to do",
    fix=Fix(
        "look for parameters that were replaced after the optimizer was built, and for steps that are smaller than the "
        "weights' type can tell: bfloat16 holds three digits"
    ),
    detect=detect,
    faulty=looked_at(PutBack),
    healthy=looked_at(type("Once", (PutBack,), {"until": 10})),
)
