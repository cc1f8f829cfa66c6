from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from training_checklist.instruments import Example, Small, Step, loader, speaks_of_posterior, tensors
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

Sizes = dict[tuple[str, int], list[float]]


def detect(step: Step, limits: Limits) -> Hits:
    """Run both steps in eval mode on the batch that is validated."""
    trained, validated = (sizes(step, name, limits.numbers) for name in ("training_step", step.name))
    draws = speaks_of_posterior(step.pl_module)  # of which validation may take the mean, that is smaller
    common = [place for place in validated if place in trained]
    if not common:
        raise CannotJudge("no module is called with numbers in both steps")
    for path, position in common:
        # In a loop, as where a diffusion model samples, every call has a size of its own.
        calls = product(validated[path, position], trained[path, position])
        now, then = median(validated[path, position]), median(trained[path, position])
        if all(max(pair) > limits.apart * min(pair) for pair in calls) and not (draws and now < then):
            yield Hit(
                f"{path} gets numbers of root mean square {now:.3g} in {step.name} and {then:.3g} in training_step, "
                "for the same batch",
                step.place.beside(module=path),
            )
            return  # what comes after it gets other numbers for that reason


def sizes(step: Step, name: str, least: int) -> Sizes:
    """Return the root mean squares of what each module is given in a step, by its path and the place among tensors.

    Args:
        least: numbers of which one is taken.
    """
    with given(least) as calls:
        copy = step.again(step.batch, training=False, name=name).pl_module
    paths = {id(module): path for path, module in originals(copy)}
    found: dict[tuple[str, int], list[tuple[float, bool]]] = {}
    for module, values in calls:
        has_weights = any(True for _ in module.parameters())  # a criterion may compare in the units of the targets
        for position, (value, is_one) in enumerate(values if has_weights else ()):
            if id(module) in paths and value > 0:
                found.setdefault((paths[id(module)], position), []).append((value, is_one))
    # What is the same for all samples is chosen, as the time at which a diffusion model is validated.
    return {key: [size for size, _ in of] for key, of in found.items() if len(of) > 1 or not of[0][1]}


@contextmanager
def given(least: int) -> Iterator[list[tuple[nn.Module, list[tuple[float, bool]]]]]:
    calls: list[tuple[nn.Module, list[tuple[float, bool]]]] = []

    def keep(module: nn.Module, inputs: Any) -> None:
        numbers = (each for each in tensors(inputs) if each.dtype != torch.bool and not each.is_complex())
        sized = ((each, root_mean_square(each) * (each.numel() >= least)) for each in numbers)
        calls.append((module, [(size, size > 0 and bool((each == each[:1]).all())) for each, size in sized]))

    handle = register_module_forward_pre_hook(keep)
    try:
        yield calls
    finally:
        handle.remove()


def root_mean_square(tensor: Tensor) -> float:
    """Return it of finite numbers, 0.0 of others."""
    numbers = tensor.detach() if tensor.is_floating_point() else tensor.double()
    size = float(torch.linalg.vector_norm(numbers, dtype=torch.double)) / max(tensor.numel(), 1) ** 0.5  # of no copy
    return size if size < float("inf") else 0.0


def originals(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module with its path; those of an averaged copy with the paths of what it is a copy of."""
    known: dict[Any, str] = {}
    for name, child in root.named_children():
        state = child.state_dict().items()
        alike = type(child), tuple((key, None if is_lazy(each) else each.shape) for key, each in state)
        first = known.setdefault(alike, name) if alike[1] else name
        yield from ((f"{first}.{path}".rstrip("."), module) for path, module in child.named_modules())


class Scaled(Small):
    """Adds noise to what it is given in training, and multiplies it in validation."""

    by = 20.0

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, labels = batch
        return self.loss(self(inputs + torch.randn_like(inputs)), labels)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        inputs, labels = batch
        self.log("val/loss", self.loss(self(inputs * self.by), labels))


class Alike(Scaled):
    by = 5.0


class Sampling(Alike):
    """Goes on in validation from its own answers, which grow."""

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        super().validation_step(batch, batch_idx)
        for power in range(2, 5):
            self(batch[0] * self.by**power)


class Narrow(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(2, 2), nn.Linear(2, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs[:, :2])


class InUnits(Small):
    """Learns by standardised targets, and is validated in their units, by one criterion."""

    def __init__(self) -> None:
        super().__init__()
        self.distance = nn.L1Loss()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.distance(self(batch[0]), batch[0][:, :4])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/error", self.distance(100 * self(batch[0]), 100 * batch[0][:, :4]))


class Timed(Alike):
    """Is told how much noise there is, by a number for each sample, and validated at a low one."""

    def __init__(self) -> None:
        super().__init__()
        self.timed = nn.Linear(1, 4)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.at(batch, torch.randint(1, 1000, (len(batch[0]), 1)))

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.at(batch, torch.full((len(batch[0]), 1), 10)))

    def at(self, batch: list[Tensor], time: Tensor) -> Tensor:
        return self.loss(self(batch[0]) + self.timed(time.float()), batch[1])


PROBE = Probe(
    question="Do the inputs of each module have the same scale in validation_step as in training_step, for one batch?",
    why="weights that were trained on inputs of one scale mean nothing for those of another: one of the two steps "
    "forgets to normalise, or does it twice, or counts time in another unit",
    severity=WARNING,
    fix=Fix("prepare the inputs in one method that both steps call"),
    steps=("validation_step",),
    detect=detect,
    thresholds={
        "apart": Threshold(10.0, "times: an order of magnitude"),
        "numbers": Threshold(
            8,
            "of which a size is taken: of so many that are drawn evenly from a range, it is known to a sixth",
            factor=5.0,
            faulty=Example(Scaled, partial(loader, 2)),
            healthy=Example(Narrow, partial(loader, 2)),
        ),
    },
    faulty=Scaled,
    healthy=Alike,
    also_healthy=(Sampling, InUnits, Timed),
)
