from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import Tested
from training_checklist.finding import REMARK, Fix
from training_checklist.rule import Hit, Rule


def judge(tested: Tested, limits: Any) -> Iterator[Hit]:
    if tested.as_trained:
        yield Hit(
            f"the network is tested as the last step leaves it, and checkpoints keep the best {tested.metric}",
            tested.place,
        )


RULE = Rule(
    id="paths/last-weights-tested",
    item="paths",
    question="Are the best weights tested, where checkpoints keep the best?",
    why="the score is that of the last epoch, which may have learnt the training set by heart",
    severity=REMARK,
    evidence=Tested,
    judge=judge,
    fix=Fix('trainer.test(datamodule=datamodule, ckpt_path="best"); if the last weights are meant, silence this rule'),
    faulty=lambda: Tested("val/accuracy", True),
    healthy=lambda: Tested("val/accuracy", False),
)
