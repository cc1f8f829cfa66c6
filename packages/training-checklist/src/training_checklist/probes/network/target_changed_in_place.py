from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Small, Step, as_loaded, leaves, same, seed_all
from training_checklist.lightning import isolate_rng
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    loaded = leaves(as_loaded(step.batch))
    left, targets = changed_by(step, seed=0)
    if not targets:
        raise CannotJudge("the step compares with no tensor")
    changed = [path for path, leaf in loaded.items() if path in left and not same(left[path], leaf)]
    others = changed_by(step, seed=1)[0] if changed else {}
    for path in changed:
        if (
            path in others
            and not same(left[path], others[path])
            and any(same(target, left[path]) for target in targets)
        ):
            yield Hit(
                f"the step changes {path} in place by random numbers, and compares with it afterwards",
                step.place.beside(loader="train_dataloader", note=path),
            )


def changed_by(step: Step, seed: int) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Return what a step leaves of a batch, and all that it compares with, with random numbers of some seed."""
    batch = as_loaded(step.batch)
    with isolate_rng():
        seed_all(seed)
        again = step.again(batch)
    calls = (*again.criteria.calls, *again.differences.calls.values())
    return leaves(batch), [call.target.detach() for call in calls]


class Denoising(Small):
    """Gives eight numbers back, of which it is shown noisy ones."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(16, 8)

    def noisy(self, inputs: Tensor) -> Tensor:
        return inputs + 0.1 * torch.randn_like(inputs)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return functional.mse_loss(self(self.noisy(batch[0])), batch[0])


class InPlace(Denoising):
    def noisy(self, inputs: Tensor) -> Tensor:
        inputs += 0.1 * torch.randn_like(inputs)
        return inputs


class ByHand(InPlace):
    """Writes its loss out, and leaves numbers out instead of adding some."""

    def noisy(self, inputs: Tensor) -> Tensor:
        inputs[torch.rand_like(inputs) < 0.3] = 0.0
        return inputs

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return (self(self.noisy(batch[0])) - batch[0]).square().mean()


PROBE = Probe(
    question="Does what the step compares with stay as it was loaded, where it draws noise for its inputs?",
    why="the noise is in the targets, too: the network learns to give it back, and nothing of what was covered",
    severity=WARNING,
    may_be_wrong="inputs and targets may be augmented together",
    fix=Fix("make a new tensor of it, x + noise and not x += noise; or clone it before"),
    detect=detect,
    faulty=InPlace,
    also_faulty=(ByHand,),
    healthy=Denoising,
)
