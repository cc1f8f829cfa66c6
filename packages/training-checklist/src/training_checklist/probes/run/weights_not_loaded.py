from torch import nn

from training_checklist.instruments import LoadedWeights, Small, Stages
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(stages: Stages, limits: Limits) -> Hits:
    for call in stages.loaded_weights:
        if any(other.matched and other.place.spot == call.place.spot for other in stages.loaded_weights):
            continue  # one part after the other, of which a new one has nothing to load
        # A part of the keys is loaded on purpose: a backbone without its head, an adapter.
        if call.given and call.expected and not call.matched:
            yield Hit(
                f"load_state_dict(strict=False) loads nothing: none of the {call.given} keys given is among the "
                f"{call.expected} of {call.module}, which has {call.missing!r} and is given {call.unexpected!r}",
                call.place,
                fix=fix_of(call),
            )
        elif call.expected and not call.given:
            yield Hit(
                f"load_state_dict(strict=False) loads nothing: it is given no key at all, and {call.module} has "
                f"{call.expected}, such as {call.missing!r}",
                call.place,
                fix=Fix("look at what chooses the keys: a prefix that no key has leaves none"),
            )


def fix_of(call: LoadedWeights) -> Fix | None:
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
    return None


class Pretrained(Small):
    """One whose first layer has other weights, as they were saved of a network."""

    prefix = "first."

    def __init__(self) -> None:
        super().__init__()
        self.load_state_dict(nn.Linear(8, 16).state_dict(prefix=self.prefix), strict=False)


class Chosen(Small):
    """One whose weights are chosen by a prefix that none of them has."""

    def __init__(self) -> None:
        super().__init__()
        weights = {key: value for key, value in self.state_dict().items() if key.startswith("encoder.")}
        self.load_state_dict(weights, strict=False)


class InParts(Small):
    """One whose parts are loaded one after the other; its head is new."""

    def __init__(self) -> None:
        super().__init__()
        weights = nn.Linear(8, 16).state_dict(prefix="first.")
        for name, part in self.named_children():
            own = {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(name)}
            part.load_state_dict(own, strict=False)


PROBE = Probe(
    question="Does every load_state_dict(strict=False) load at least one weight?",
    why="the module keeps the weights that it has, random ones where it is new, and strict=False hides it",
    fix=Fix(
        "print what load_state_dict returns, missing_keys and unexpected_keys, and give the keys as the module has them"
    ),
    detect=detect,
    faulty=type("Prefixed", (Pretrained,), {"prefix": "model.first."}),
    also_faulty=(Chosen,),
    healthy=Pretrained,
    also_healthy=(InParts,),
)
