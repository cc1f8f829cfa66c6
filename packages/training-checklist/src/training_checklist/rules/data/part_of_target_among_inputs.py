from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import TargetParts
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(parts: TargetParts, limits: Any) -> Iterator[Hit]:
    answers = {answer for answer, _ in parts.found}
    # Of a target of one number, the inputs hold all or nothing.
    if answers and (len(answers) <= limits.max_share * parts.numbers or parts.numbers == 1):
        answer, place = parts.found[0]
        of_what = "which is to be foretold" if parts.kinds is None else f"one of {parts.kinds} different numbers"
        more = f", and {len(answers) - 1} more of its numbers stand there too" if len(answers) > 1 else ""
        yield Hit(
            f"{answer}, {of_what}, stands among the inputs, as {place}, in all of {parts.samples} samples{more}",
            parts.place.beside(note=place),
        )


RULE = Rule(
    id="data/part-of-target-among-inputs",
    item="limit_batches",
    question="Do inputs end before the target begins?",
    why="a window that is a step too long, or a target that begins a step too early, lets the network copy what it "
    "should foretell: its error is too good, and the first number is missing where it is used",
    severity=WARNING,
    evidence=TargetParts,
    judge=judge,
    fix=Fix(
        "end the inputs at the step before the first one of the target: x = series[i : i + n]; y = series[i + n :]"
    ),
    faulty=lambda: TargetParts("batch[1]", 24, [("batch[1][:, 0]", "batch[0][:, 47, 0]")], 64),
    healthy=lambda: TargetParts("batch[1]", 24, [], 64),
    thresholds={
        "max_share": Threshold(
            0.25,
            "of the target: a decoder that is given the series again, or a network that makes its inputs anew, has "
            "most of its target among them",
        )
    },
)
