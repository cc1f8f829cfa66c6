from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Pairing, Pairings, by
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(pairings: Pairings, limits: Any) -> Iterator[Hit]:
    unmeant = [call for call in pairings.calls if not call.meant]
    for call in unmeant:
        if call.follows_batch:
            shapes = " with ".join(map(by, call.shapes))
            what = f"{call.operation} of {shapes} makes {by(call.result)} in {pairings.step}: all samples with all"
            yield Hit(what, call.place)
    if unmeant and all(call.follows_batch is None for call in unmeant):
        raise CannotJudge(
            f"{pairings.step} does not take a batch with a sample less, so that {unmeant[0].operation} in "
            f"{unmeant[0].place} may be of samples or of something else that is as many"
        )


RULE = Rule(
    id="network/pairing-of-all-samples",
    item="trace",
    question="Is each sample compared with itself only?",
    why="what comes out, a metric or a loss, is mostly about samples that have nothing to do with one another",
    severity=FAILED,
    evidence=Pairings,
    judge=judge,
    fix=Fix(
        "give both one shape: squeeze(1) of the first, without keepdim=True; x[:, None] says where pairs are meant"
    ),
    faulty=lambda: Pairings(
        "validation_step", [Pairing("eq", ((64, 1), (64,)), (64, 64), meant=False, follows_batch=True)]
    ),
    healthy=lambda: Pairings(
        "validation_step", [Pairing("eq", ((64, 1), (64,)), (64, 64), meant=True, follows_batch=True)]
    ),
)
