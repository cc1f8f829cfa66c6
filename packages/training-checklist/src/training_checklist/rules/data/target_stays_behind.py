from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import PixelTargets
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(pixels: PixelTargets, limits: Any) -> Iterator[Hit]:
    one, other = pixels.turned / max(pixels.samples, 1), pixels.held_turned / max(pixels.held_out, 1)
    if one > other + limits.turned:
        yield Hit(
            f"{pixels.turned} of {pixels.samples} targets of the training set would fit their image better if they "
            f"were {pixels.turn} or the like; {pixels.held_turned} of {pixels.held_out} that are held out",
            pixels.place,
        )


RULE = Rule(
    id="data/target-stays-behind",
    item="limit_batches",
    question="Are targets of pixels turned and mirrored as their images are?",
    why="pixels are taught the classes of other pixels",
    severity=FAILED,
    evidence=PixelTargets,
    judge=judge,
    fix=Fix("draw once for both: torchvision.transforms.v2 with tv_tensors.Image and tv_tensors.Mask does"),
    faulty=lambda: PixelTargets(128, 60, 64, 1, "mirrored left to right"),
    healthy=lambda: PixelTargets(128, 3, 64, 1, "mirrored left to right"),
    thresholds={
        "turned": Threshold(
            0.1, "share beyond that of held-out samples; one coin for the image alone turns half of them"
        )
    },
)
