from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import SetUpAgain
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(again: SetUpAgain, limits: Any) -> Iterator[Hit]:
    if again.differs is None:
        raise CannotJudge("the training set gives no sample twice in the same way")
    if again.generated:
        raise CannotJudge("setup makes other samples each time, and splits none anew")
    if again.differs:
        yield Hit(
            "setup('test') has made another training set than setup('fit') did: the split is drawn anew", again.place
        )


RULE = Rule(
    id="data/split-drawn-anew",
    item="limit_batches",
    question="Is the split the same whenever setup is called?",
    why="setup is called for each stage: what is tested on then was trained on before",
    severity=FAILED,
    evidence=SetUpAgain,
    judge=judge,
    fix=Fix("draw it by a seed of its own: torch.randperm(n, generator=torch.Generator().manual_seed(seed))"),
    faulty=lambda: SetUpAgain(True),
    healthy=lambda: SetUpAgain(False),
)
