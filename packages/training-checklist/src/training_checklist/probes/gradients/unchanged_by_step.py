from typing import Any

from training_checklist.instruments import FirstSteps, OptimizerSteps, Small, several_steps
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = [each for each in steps.optimizers if len(each.with_gradients) > 1]
    if not known:
        raise CannotJudge("fewer than two steps had a gradient")
    for each in known:
        if all(effect.put_back for effect in each.with_gradients):
            yield Hit(
                f"every step of {each.name} changes the weights, and before the next one they are what they were",
                steps.between(),
                fix=Fix("look for what loads or copies weights between two steps: a hook, a callback"),
            )
        if not any(effect.changed for effect in each.with_gradients):
            yield unchanged(each, steps.between())


def unchanged(steps: OptimizerSteps, between: Place) -> Hit:
    """Return what keeps steps from changing anything."""
    made = steps.with_gradients
    last, start = made[-1], [float(group.get("initial_lr") or 0) for group in steps.optimizer.param_groups]
    what = f"in all of {len(made)} steps of {steps.name} no weight changes, though backward makes gradients"
    if all(effect.got == 0 for effect in made):
        return Hit(
            f"{what} of norm {last.made:.3g}: they are zeroed before the step gets them",
            between,
            fix=Fix("zero gradients before backward, not between backward and the step"),
        )
    what += f" of norm {last.got:.3g}"
    if steps.rate == 0 and any(start):
        return Hit(
            f"{what}: its schedule makes 0 of lr={max(start):g} in all of these steps",
            Place(function="configure_optimizers", note="the learning rate schedule"),
            fix=Fix(
                "print the rates of its first steps; a warm-up is not to divide integers, nor to be stepped by epochs"
            ),
        )
    if steps.rate == 0:
        return Hit(f"{what}: its lr is 0", Place(key="optimizer.lr", value="0"))
    return Hit(
        f"{what}, and the step gets them at lr={steps.rate}",
        between,
        fix=Fix("the optimizer does nothing with them, or the change is below what the weights' type can hold"),
    )


class Zeroing(Small):
    def on_before_optimizer_step(self, optimizer: Any) -> None:
        optimizer.zero_grad()


class ZeroingHalf(Small):
    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.first.zero_grad()


PROBE = Probe(
    question="Does each optimizer step change weights that have a gradient?",
    why="nothing is trained: an update of exactly 0 is no matter of a small learning rate",
    fix=Fix("look at what comes between backward and the step"),
    detect=detect,
    faulty=several_steps(Zeroing),
    healthy=several_steps(ZeroingHalf),
)
