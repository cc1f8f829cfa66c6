"""Which modules have no effect on the loss."""

import inspect
from collections.abc import Collection
from typing import Any

from torch import Tensor, nn

from training_checklist.engines.own_code import is_own
from training_checklist.engines.parameter_names import gather
from training_checklist.evidence.network import Effects, ModuleCall, WithoutEffect
from training_checklist.lightning import LightningModule, Trainer

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def effects(
    pl_module: LightningModule,
    trainer: Trainer,
    reached: dict[str, bool],
    zero_start: list[str],
    rows: list[ModuleCall],
    copies: Collection[str] = (),
) -> Effects:
    """Return the modules of which no parameter got a gradient, or only zeros.

    Args:
        reached: parameters that got a gradient, and whether it had anything but zeros.
        copies: modules that were copies of others when training began.
    """
    held = {id(p) for optimizer in trainer.optimizers for group in optimizer.param_groups for p in group["params"]}
    trained = [name for name, p in pl_module.named_parameters() if p.requires_grad and id(p) in held]
    found = Effects(
        len(trained), sum(reached.values()), automatic=pl_module.automatic_optimization, zero_start=zero_start
    )
    for zero in (False, True):
        names = [name for name in trained if reached.get(name) is (False if zero else None)]
        for path, inside in gather(names, trained):
            if path == inside[0]:  # a weight beside others that have gradients is not its module's failure
                continue
            calls = [row for row in rows if row.path == path or row.path.startswith(f"{path}.")]
            with_grad = any(row.with_grad for row in calls)
            owner, _, _ = path.rpartition(".")
            chosen = bool(owner) and isinstance(pl_module.get_submodule(owner), (nn.ModuleList, nn.ModuleDict))
            own = is_called_by_own_code(pl_module, path)
            without = WithoutEffect(path, inside, zero, bool(calls), with_grad, chosen, own, path in copies)
            found.without.append(without)
    return found


def copies_in(pl_module: LightningModule) -> set[str]:
    """Return the modules of which another one has the very weights: a baseline of earlier weights, a target network."""
    values = {id(p): (tuple(p.shape), float(p.detach().double().sum()), constant(p)) for p in pl_module.parameters()}
    alike: dict[tuple[Any, ...], list[str]] = {}
    for path, module in pl_module.named_modules():
        known = tuple(values[id(parameter)] for parameter in module.parameters())
        if path and not all(
            is_constant for _, _, is_constant in known
        ):  # a layer begins with ones and zeros as others do
            alike.setdefault((type(module), known), []).append(path)
    return {path for paths in alike.values() if len(paths) > 1 for path in paths}


def constant(parameter: Tensor) -> bool:
    return parameter.numel() == 0 or bool((parameter.detach() == parameter.detach().flatten()[0]).all())


def is_called_by_own_code(pl_module: LightningModule, path: str) -> bool:
    """Whether the class that decides about calling a module is the project's.

    A network that comes with a package may have parts that this task does not need: a pooler, a second head.
    """
    owner = path.rpartition(".")[0]
    while owner and isinstance(pl_module.get_submodule(owner), CONTAINERS):
        owner = owner.rpartition(".")[0]
    try:
        return is_own(inspect.getsourcefile(type(pl_module.get_submodule(owner))) or "")
    except (TypeError, OSError):  # made in a notebook or by exec
        return True


def is_zero_start(name: str, parameter: Tensor) -> bool:
    """Whether a weight starts from zero, as heads, LoRA and the last scale of a residual branch do on purpose."""
    return not name.endswith("bias") and not parameter.detach().any()
