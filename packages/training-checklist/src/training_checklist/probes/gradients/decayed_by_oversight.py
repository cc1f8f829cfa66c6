from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from training_checklist.instruments import FirstSteps, several_steps, shown, with_part
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    named = {id(p): name for name, p in steps.after_first.trained.items()}
    for optimizer in steps.trainer.optimizers:
        for kind in ("biases", "weights of norms"):
            held = [(named[id(p)], group) for group, p in members(optimizer) if id(p) in named]
            alike = [(name, group) for name, group in held if kind_of(steps.pl_module, name) == kind]
            rates = [float(group.get("weight_decay") or 0.0) for _, group in alike]
            decayed = [name for (name, _), rate in zip(alike, rates, strict=True) if rate]
            # A group without decay is for vectors alone, where it is an exemption.
            exempt = [name for name, group in alike if name not in decayed and all(p.ndim < 2 for p in group["params"])]
            if decayed and exempt:
                yield Hit(
                    f"weight decay of {max(rates):g} pulls at {len(decayed)} {kind}, while {len(exempt)} others "
                    f"are exempt from it: {shown(exempt)}",
                    steps.configured.beside(parameter=shown(decayed)),
                )


def members(optimizer: Optimizer) -> Iterator[tuple[dict, Tensor]]:
    yield from ((group, p) for group in optimizer.param_groups for p in group["params"])


def kind_of(root: nn.Module, name: str) -> str:
    """Return "biases", "weights of norms", or "" of what is neither."""
    owner, _, last = name.rpartition(".")
    if root.get_parameter(name).ndim > 1:
        return ""
    if last.endswith("bias"):
        return "biases"
    return "weights of norms" if "norm" in type(root.get_submodule(owner)).__name__.lower() else ""


class Normed(with_part(lambda: nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4)), lambda norms, answers: norms(answers))):
    forgotten = ("part.1.weight",)

    def configure_optimizers(self) -> Optimizer:
        groups: dict[float, list[Tensor]] = {0.0: [], 0.1: []}
        for name, weight in self.named_parameters():
            groups[0.1 if weight.ndim > 1 or name.endswith(self.forgotten) else 0.0].append(weight)
        return torch.optim.AdamW([{"params": some, "weight_decay": rate} for rate, some in groups.items()], lr=0.01)


PROBE = Probe(
    question="Are either all or none of the biases and norm weights exempt from weight decay?",
    why="what chooses them, such as a list of names, does not meet them all",
    severity=WARNING,
    fix=Fix("choose them by what they are: parameters with fewer than two dimensions"),
    detect=detect,
    faulty=several_steps(Normed),
    healthy=several_steps(type("Exempt", (Normed,), {"forgotten": ()})),
    also_healthy=(several_steps(type("Decayed", (Normed,), {"forgotten": ("weight", "bias")})),),
)
