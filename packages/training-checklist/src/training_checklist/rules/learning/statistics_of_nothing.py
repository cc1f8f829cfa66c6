from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Modes
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(modes: Modes, limits: Any) -> Iterator[Hit]:
    unmoved = [path for path in modes.unmoved if path not in modes.asleep]  # those are another rule's
    if unmoved:
        yield Hit(
            f"validation normalises by running statistics that are still 0 and 1 in {', '.join(unmoved[:3])}, "
            f"whose weights have changed",
            Place(module=", ".join(unmoved)),
        )


RULE = Rule(
    id="learning/statistics-of-nothing",
    item="learning",
    question="Have the running statistics that validation uses been updated by any batch?",
    why="the network was trained with other inputs than it gets there: a copy, such as an average of weights, was "
    "given parameters and no buffers",
    severity=FAILED,
    evidence=Modes,
    judge=judge,
    fix=Fix("copy the buffers too: torch.optim.swa_utils.AveragedModel(net, use_buffers=True), or state_dict()"),
    faulty=lambda: Modes(unmoved=["ema.norm"]),
    healthy=lambda: Modes(others=["net.norm"]),
)
