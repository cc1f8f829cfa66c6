from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loaded_weights import LoadedWeights
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

FIX = Fix(
    "print what load_state_dict returns, missing_keys and unexpected_keys, and give the keys as the module has them"
)


def judge(call: LoadedWeights, limits: Any) -> Iterator[Hit]:
    # A part of the keys is loaded on purpose: a backbone without its head, an adapter.
    if call.given and call.expected and not call.matched:
        yield Hit(
            f"load_state_dict(strict=False) loads nothing: none of the {call.given} keys given is among the "
            f"{call.expected} of {call.module}, which has {call.missing!r} and is given {call.unexpected!r}",
            call.place,
            fix=fix_of(call),
        )


def fix_of(call: LoadedWeights) -> Fix:
    if call.nested:
        return Fix(f"the weights are one level below: load_state_dict(checkpoint[{call.nested!r}])")
    if call.surplus:
        return Fix(
            f"take the prefix {call.surplus!r} off: "
            f"{{key.removeprefix({call.surplus!r}): value for key, value in weights.items()}}"
        )
    if call.lacking:
        return Fix(
            f"put the prefix {call.lacking!r} in front: "
            f"{{{call.lacking!r} + key: value for key, value in weights.items()}}"
        )
    return FIX


RULE = Rule(
    id="run/weights-not-loaded",
    item="fast_dev_run",
    question="Does every load_state_dict(strict=False) load any weight?",
    why="the module keeps the weights that it has, random ones where it is new, and strict=False hides it",
    severity=FAILED,
    evidence=LoadedWeights,
    judge=judge,
    fix=FIX,
    faulty=lambda: LoadedWeights("ResNet", 62, 62, 0, "model.fc.bias", "fc.bias", surplus="model."),
    # A new head.
    healthy=lambda: LoadedWeights("ResNet", 62, 62, 60, "fc.bias", "head.bias"),
)
