from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    CriterionCall,
    Example,
    Small,
    Step,
    called_once,
    isolate_rng,
    leaves,
    rolled,
    same,
    seed_all,
    tensors,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    found, known = targets(step, step.criteria.calls), leaves(step.batch)
    validated = {call.name for call in step.criteria.calls if place_of(call.target, known)}
    if not validated:
        raise CannotJudge(f"{step.name} compares with no part of the batch as it is")
    trained, outputs, given = with_outputs(step, "training_step")
    of_training = targets(trained, trained.learned)
    predicted = {call.name for call in called_once(trained.learned) if is_output(call, outputs)}
    unlike = validated & predicted - of_training.keys()
    drawn = unlike & drawn_in_training(step, trained) if unlike else set()
    if drawn:
        again, outputs, _ = with_outputs(step, step.name)
        for call in again.criteria.calls:
            place = place_of(call.target, known)
            if place and call.name in drawn and is_output(call, outputs):
                yield Hit(
                    f"{step.name} compares what the network returns with {place}, and training_step with random "
                    f"numbers: {call.name}",
                    call.place,
                )
    elif not of_training:
        raise CannotJudge("training_step compares with no part of the batch as it is")
    for name, (leaf, call) in found.items():
        expected = of_training.get(name, (leaf, call))[0]
        enters = any(same(known[leaf], each) for each in given)
        if leaf != expected and (enters or not are_versions(known[leaf], known[expected])):
            what = f"{step.name} compares with {leaf}, and training_step with {expected}: {name} of the same batch"
            yield Hit(what, call.place)


def are_versions(one: Tensor, other: Tensor) -> bool:
    """Whether two parts of a batch mostly agree, as noisy targets to learn from and right ones do, in other units, too.

    Numbers that do have more than half of their variance in common, and labels are more often the same than not.
    """
    if one.shape != other.shape or one.is_floating_point() != other.is_floating_point():
        return False
    if not one.is_floating_point():
        return bool((one == other).float().mean() > 1 / 2)
    both = torch.stack([one.flatten(), other.flatten()]).double()
    return both.shape[1] > 1 and bool(torch.corrcoef(both)[0, 1] ** 2 > 1 / 2)


def targets(step: Step, calls: list[CriterionCall]) -> dict[str, tuple[str, CriterionCall]]:
    """Return the place in the batch of each criterion's target, by the criterion; not where it is called twice."""
    known = leaves(step.batch)
    found = [(call, place_of(call.target, known)) for call in called_once(calls)]
    return {call.name: (path, call) for call, path in found if path}


def with_outputs(step: Step, name: str) -> tuple[Step, list[Tensor], list[Tensor]]:
    """Run a step again; return it, and the tensors that modules have returned meanwhile, and those that entered one."""
    outputs: list[Tensor] = []
    inputs: list[Tensor] = []

    def keep(module: nn.Module, given: Any, output: Any) -> None:
        outputs.extend(tensors(output))
        if any(True for _ in module.parameters()):  # a criterion is given targets
            inputs.extend(tensors(given))

    hook = register_module_forward_hook(keep)
    try:
        return step.again(step.batch, name=name), outputs, inputs
    finally:
        hook.remove()


def is_output(call: CriterionCall, outputs: list[Tensor]) -> bool:
    """Whether a criterion is given what a module has returned, as it is."""
    return any(call.input is each for each in outputs)


def drawn_in_training(step: Step, trained: Step) -> set[str]:
    """Return the criteria whose targets in training are other numbers each time, and the same for other samples."""
    batch = rolled(step.batch, 1)
    if batch is None:
        return set()
    with isolate_rng():
        seed_all(1)  # any: other random numbers than before
        others = by_name(step.again(step.batch, name="training_step"))
    known, moved = by_name(trained), by_name(step.again(batch, name="training_step"))
    return {
        name
        for name in known.keys() & others.keys() & moved.keys()
        if not same(others[name], known[name]) and same(moved[name], known[name])
    }


def by_name(step: Step) -> dict[str, Tensor]:
    """Return the targets of the criteria that training learns by, and calls once."""
    return {call.name: call.target for call in called_once(step.learned)}


def place_of(target: Tensor, known: dict[str, Tensor]) -> str:
    """Return which part of a batch a target is as it is, "" for none."""
    return next((path for path, leaf in known.items() if target.numel() > 1 and same(target, leaf)), "")


class Restoring(Small):
    """Gives back 8 numbers of which it sees noisy ones."""

    target = 1

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 8)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", functional.mse_loss(self(batch[0]), batch[self.target]))


class ValidatedWithInputs(Restoring):
    target = 0


class Denoising(Restoring):
    """Tells the noise that was added to a batch."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.error(batch, 2)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.error(batch, self.target))

    def error(self, batch: list[Tensor], target: int) -> Tensor:
        noise = torch.randn_like(batch[0])
        return functional.mse_loss(self(batch[0] + noise), (*batch, noise)[target])


class Restored(Denoising):
    """Takes the noise that it tells away, and compares what is left."""

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        noisy = batch[0] + torch.randn_like(batch[0])
        self.log("val/loss", functional.mse_loss(noisy - self(noisy), batch[0]))


class NoiseToNoise(Restoring):
    """Learns to give what it sees with other noise (Lehtinen et al. 2018), and is validated by what has none."""

    error = staticmethod(functional.mse_loss)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.error(self(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.error(self(batch[0]), batch[2]))


def twice_noisy() -> DataLoader:
    clean = torch.randn(32, 8)
    return DataLoader(TensorDataset(*(clean + 0.1 * torch.randn(32, 8) for _ in range(2)), clean), batch_size=16)


class CleanlyValidated(NoiseToNoise):
    """Learns from labels of which some are wrong, and is validated by others."""

    error = staticmethod(functional.cross_entropy)


def noisy() -> DataLoader:
    clean = torch.arange(32) % 4
    given = torch.where(torch.arange(32) % 5 == 0, (clean + 1) % 4, clean)
    return DataLoader(TensorDataset(torch.randn(32, 8), given, clean), batch_size=16)


def pairs() -> DataLoader:
    clean = torch.randn(32, 8)
    return DataLoader(TensorDataset(clean + 0.1 * torch.randn(32, 8), clean), batch_size=16)


PROBE = Probe(
    question="Does validation_step give a criterion the same part of the batch as its target as training_step does?",
    why="the two losses say different things, so that neither overfitting nor the best epoch can be seen in them",
    fix=Fix("compare with the same part of the batch in both steps, best in one method that both call"),
    steps=("validation_step",),
    detect=detect,
    faulty=Example(ValidatedWithInputs, pairs),
    healthy=Example(Restoring, pairs),
    also_faulty=(Example(Denoising, pairs),),
    also_healthy=(Example(Restored, pairs), Example(CleanlyValidated, noisy), Example(NoiseToNoise, twice_noisy)),
)
