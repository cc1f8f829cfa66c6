import ast
from typing import Any

from torch import nn

from training_checklist.instruments import FirstSteps, Small, is_overridden, of_function, several_steps, tree_of
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    trainer, pl_module, optimizers = steps.trainer, steps.pl_module, steps.optimizers
    limit, by = trainer.gradient_clip_val, trainer.gradient_clip_algorithm
    # Scaled gradients are divided again before they are clipped; a strategy that shards them knows no whole norm here.
    if not limit or not pl_module.automatic_optimization or str(getattr(by, "value", by) or "norm") != "norm":
        raise CannotJudge("Lightning is not asked to clip gradients by their norm")
    own = is_overridden("configure_gradient_clipping", pl_module)
    if own and clips_parts(type(pl_module).configure_gradient_clipping):
        raise CannotJudge("configure_gradient_clipping clips several parts, each by a norm of its own")
    place = of_function(type(pl_module).configure_gradient_clipping) if own else Place()
    for each in optimizers:
        above = [effect.got for effect in each.effects if effect.got > limits.above_clip * limit]
        if above:
            yield Hit(
                f"gradients of {len(above)} of {len(each.effects)} steps have a greater norm than "
                f"trainer.gradient_clip_val={limit:g}, up to {max(above):.3g}",
                place.beside(key="trainer.gradient_clip_val", value=f"{limit:g}"),
            )


def clips_parts(hook: Any) -> bool:
    """Whether a hook clips more than once, or in a loop."""
    nodes = [*ast.walk(tree_of(hook))]
    called = [ast.unparse(each.func) for each in nodes if isinstance(each, ast.Call)]
    times = sum(each.endswith("clip_grad_norm_") for each in called)
    return times > 1 or (times == 1 and any(isinstance(each, ast.For) for each in nodes))


class Clipped(Small):
    """Clips to a multiple of what the Trainer is asked for."""

    times = 1.02

    def configure_gradient_clipping(self, optimizer: Any, gradient_clip_val: Any, gradient_clip_algorithm: Any) -> None:
        nn.utils.clip_grad_norm_(self.parameters(), self.times * gradient_clip_val)


PROBE = Probe(
    question="Is the gradient norm at the optimizer's step within gradient_clip_val?",
    why="something other than these gradients is clipped, or they change afterwards: large steps are as large as ever",
    severity=WARNING,
    fix=Fix(
        "in configure_gradient_clipping: self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)"
    ),
    detect=detect,
    thresholds={
        "above_clip": Threshold(
            1.01, "of the limit: clipping divides by the norm in float32, or in bfloat16", factor=1.015
        )
    },
    faulty=several_steps(Clipped, gradient_clip_val=0.05),
    healthy=several_steps(type("Exactly", (Clipped,), {"times": 1.0}), gradient_clip_val=0.05),
)
