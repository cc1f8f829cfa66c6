from inspect import signature

import torch
from torch import Tensor

from training_checklist.instruments import Example, FirstSteps, OptimizerSteps, several_steps, shown
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

SAMPLED = 10_000  # values of each weight, of which the median is known to a hundredth of its distribution


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = [(each, roots) for each in steps.with_updates() if (roots := second_moments(each)).numel()]
    if not known:
        raise CannotJudge("no optimizer divides by the root of squared gradients")
    for each, roots in known:
        median, kept = float(roots.median()), max(each.kept, default=1.0)
        eps = max(float(group.get("eps") or 0) for group in each.optimizer.param_groups)
        if not median < eps:  # by the median: at eps, a step is half of what it is without
            continue
        clip = f"; clipping leaves {kept:.1e} of them" if kept < 1 else ""
        what = (
            f"{each.name} divides by the root of squared gradients, which is at most {median:.2g} for half of "
            f"the weights, plus eps={eps:g}: their steps are {eps / median + 1:.2g} times smaller{clip}"
        )
        if 0 < kept < 1 and median / kept > eps:
            yield Hit(what, Place(key="trainer.gradient_clip_val"), fix=Fix("remove the clipping, or raise it"))
        elif eps <= signature(torch.optim.Adam).parameters["eps"].default:  # what makes gradients so small is to blame
            if steps.closed:
                raise CannotJudge(f"{shown(steps.closed)} began at 0, and gradients pass as it grows")
            yield Hit(what, Place(note="the gradients of most weights"), fix=Fix("ask why gradients are so small"))
        else:
            yield Hit(what, Place(key="optimizer.eps", value=f"{eps:g}"))


def second_moments(steps: OptimizerSteps) -> Tensor:
    """Return what torch's Adam and its like divide by, of all weights that have had a gradient."""
    roots = [torch.tensor([])]
    for group in steps.optimizer.param_groups:
        for state in (steps.optimizer.state.get(p, {}) for p in group["params"]):
            known = {"exp_avg_sq", "step"} <= state.keys()
            if known and state["exp_avg_sq"].dtype in (torch.float32, torch.float64):
                square = state["exp_avg_sq"].flatten()
                square = square[:: len(square) // SAMPLED + 1].double().cpu()
                roots.append((square[square > 0] / (1 - group["betas"][1] ** float(state["step"]))).sqrt())
    return torch.cat(roots)


def adam(eps: float) -> Example:
    return several_steps(optimizer=lambda weights: torch.optim.Adam(weights, eps=eps))


PROBE = Probe(
    question="Is Adam's eps small compared with the root mean square of the gradients, to which it is added?",
    why="eps is to keep from a division by 0; where it outweighs the gradients, steps are no longer of the learning "
    "rate's size, and training slows down (arXiv:2309.14322, section 3.4)",
    severity=WARNING,
    fix=Fix("leave it at its default, 1e-8", overrides=("optimizer.eps=1e-8",)),
    detect=detect,
    faulty=adam(1.0),
    healthy=adam(1e-4),
    symptom=True,
)
