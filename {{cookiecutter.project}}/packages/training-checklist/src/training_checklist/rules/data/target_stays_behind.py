from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Followed
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(pixels: Followed, limits: Any) -> Iterator[Hit]:
    if pixels.moved < limits.turned:
        raise CannotJudge("hardly an image was turned or mirrored")
    if pixels.followed < limits.follow * pixels.moved:
        yield Hit(
            f"of {pixels.moved} images that augmentation turned or mirrored, {pixels.followed} had their target turned "
            f"and mirrored with them: one was {pixels.turns}",
            pixels.place,
        )


RULE = Rule(
    id="data/target-stays-behind",
    item="limit_batches",
    question="Are targets of pixels turned and mirrored as their images are?",
    why="pixels are taught the classes of other pixels",
    severity=FAILED,
    evidence=Followed,
    judge=judge,
    fix=Fix("draw once for both: torchvision.transforms.v2 with tv_tensors.Image and tv_tensors.Mask does"),
    faulty=lambda: Followed(16, 4, "mirrored left to right"),
    healthy=lambda: Followed(16, 16),
    thresholds={
        "turned": Threshold(5, "pairs; of fewer, some may be symmetric but for noise"),
        "follow": Threshold(0.9, "share; two draws of a coin agree in half of all cases"),
    },
)
