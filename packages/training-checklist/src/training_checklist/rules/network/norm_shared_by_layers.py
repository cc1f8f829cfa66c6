from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Modules, SharedNorm
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(modules: Modules, limits: Any) -> Iterator[Hit]:
    for norm in modules.shared_norms:
        what = f"{norm.path} normalises the outputs of {' and of '.join(norm.after)} in one pass"
        yield Hit(what, Place(module=f"{norm.path} ({norm.type})"))


RULE = Rule(
    id="network/norm-shared-by-layers",
    item="trace",
    question="Does each batch normalisation follow one layer?",
    why="its running statistics mix those of several layers, and evaluation normalises each of them by the mixture",
    severity=WARNING,
    evidence=Modules,
    judge=judge,
    fix=Fix("give each layer a normalisation of its own"),
    faulty=lambda: Modules(5, shared_norms=[SharedNorm("net.norm", "BatchNorm2d", ["net.conv1", "net.conv2"])]),
    healthy=lambda: Modules(5),
)
