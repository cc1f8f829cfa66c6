from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Concatenations, Doubled, by
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(concatenations: Concatenations, limits: Any) -> Iterator[Hit]:
    for call in concatenations.doubled:
        if call.parts == 2:
            yield Hit(f"{call.operation} joins a tensor of {by(call.shape)} with itself", call.place)
        else:
            what = f"{call.operation} of {call.parts} tensors is given one of them twice, that of {by(call.shape)}"
            yield Hit(what, call.place)


RULE = Rule(
    id="network/concatenated-with-itself",
    item="trace",
    question="Does each concatenation join different tensors?",
    why="the second one tells the next layer nothing new: something else was meant to be there",
    severity=WARNING,
    evidence=Concatenations,
    judge=judge,
    fix=Fix("look at what the other part should be: a skip connection, another branch, another time step"),
    faulty=lambda: Concatenations([Doubled("cat", (8, 24, 32, 32))]),
    healthy=lambda: Concatenations(),
)
