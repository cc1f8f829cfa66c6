"""Whether a step leaves out what looks wrong in a sample, as a label or a number that stands for none."""

import torch
from torch import Tensor

from training_checklist.engines.criteria import Criteria
from training_checklist.engines.replay import call_step, isolated, loss_in
from training_checklist.engines.splits import Split, as_in
from training_checklist.engines.tracer import Tracer
from training_checklist.lab.data import TOGETHER, Data

STEPS = {"train": "training_step", "val": "validation_step", "test": "test_step"}


def is_left_out(data: Data, split: Split, index: int) -> bool:
    """Whether the step of a split takes a batch with a sample, and its losses are finite and have no label outside.

    False, too, where that cannot be tried.
    """
    pl_module, trainer, step = data.pl_module, data.trainer, STEPS[split.stage]
    drives = step == "training_step" and not pl_module.automatic_optimization
    if drives or trainer.world_size > 1:  # it would train, or wait for other ranks
        return False
    size = split.loader.batch_size or TOGETHER
    chosen = [index, *(other for other in split.chosen(size) if other != index)][:size]
    criteria = Criteria()
    try:
        with isolated(pl_module), as_in(split.stage, trainer), trainer.precision_plugin.forward_context():
            [(_, batch)] = split.fetch(chosen, trainer, data.until, size)
            with Tracer(pl_module, criteria), torch.set_grad_enabled(step == "training_step"):
                loss = loss_in(call_step(pl_module, step, data.whole(batch) if step == "training_step" else batch))
    except Exception:
        return False
    values = [call.result for call in criteria.calls if call.options.get("reduction") != "none"]
    known = [each for each in (loss, *values) if isinstance(each, Tensor)]
    return bool(known) and all(map(is_finite, known)) and not any(call.outside for call in criteria.calls)


def is_finite(value: Tensor) -> bool:
    return bool(value.isfinite().all())
