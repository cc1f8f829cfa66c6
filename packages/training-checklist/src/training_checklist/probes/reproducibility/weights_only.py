from training_checklist.instruments import KEEPING, Example, ModelCheckpoint, SeededRuns
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    saved = seeded.saved
    if not saved.keepers:
        raise CannotJudge("the run keeps no checkpoint")
    for place in saved.keys or [Place(source="ModelCheckpoint(save_weights_only=True)")]:
        if saved.weights_only and not saved.whole:
            fix = Fix(overrides=(f"{place.key}=false",)) if place.key else None
            what = "no checkpoint of this run can be resumed: they hold weights only"
            yield Hit(what, place, fix=fix, **saved.matters(PROBE.why))


PROBE = Probe(
    question="Do checkpoints hold optimizer states and loops, and not only weights?",
    why="no optimizer, scheduler, epoch or step is in the file: a run that is interrupted begins anew",
    fix=Fix("save_weights_only=False for the one that is resumed from"),
    detect=detect,
    faulty=Example(trainer=KEEPING | {"callbacks": [ModelCheckpoint(save_weights_only=True)]}),
    healthy=Example(trainer=KEEPING),
)
