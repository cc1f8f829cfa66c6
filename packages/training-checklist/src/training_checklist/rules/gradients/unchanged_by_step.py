from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Effect, OptimizerEffects
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(seen: OptimizerEffects, limits: Any) -> Iterator[Hit]:
    made = [effect for effect in seen.effects if effect.made > 0]
    if len(made) < 2:
        raise CannotJudge("fewer than two steps had a gradient")
    if all(effect.put_back for effect in made):
        yield Hit(
            f"every step of {seen.optimizer} changes the weights, and before the next one they are what they were",
            seen.between,
            fix=Fix("look for what loads or copies weights between two steps: a hook, a callback"),
        )
    if any(effect.changed for effect in made):
        return
    what = f"in all of {len(made)} steps of {seen.optimizer} no weight changes, though backward makes gradients"
    last = made[-1]
    if all(effect.got == 0 for effect in made):
        yield Hit(
            f"{what} of norm {last.made:.3g}: they are zeroed before the step gets them",
            seen.between,
            fix=Fix("zero gradients before backward, not between backward and the step"),
        )
    elif seen.rate == 0 and seen.given:
        yield Hit(
            f"{what} of norm {last.got:.3g}: its schedule makes 0 of lr={seen.given:g} in all of these steps",
            Place(function="configure_optimizers", note="the learning rate schedule"),
            fix=Fix(
                "print the rates of its first steps; a warm-up is not to divide integers, nor to be stepped by epochs"
            ),
        )
    elif seen.rate == 0:
        yield Hit(f"{what} of norm {last.got:.3g}: its lr is 0", Place(key="optimizer.lr", value="0"))
    else:
        yield Hit(
            f"{what}, and the step gets them with norm {last.got:.3g} at lr={seen.rate}",
            seen.between,
            fix=Fix("the optimizer does nothing with them, or the change is below what the weights' type can hold"),
        )


RULE = Rule(
    id="gradients/unchanged-by-step",
    item="gradients",
    question="Does each optimizer step change weights that have a gradient?",
    why="nothing is trained: an update of exactly 0 is no matter of a small learning rate",
    severity=FAILED,
    evidence=OptimizerEffects,
    judge=judge,
    fix=Fix("look at what comes between backward and the step"),
    faulty=lambda: OptimizerEffects("Adam", [Effect(1.0, 0.0, changed=False)] * 3),
    healthy=lambda: OptimizerEffects("Adam", [Effect(1.0, 1.0, changed=False), Effect(1.0, 1.0, changed=True)]),
)
