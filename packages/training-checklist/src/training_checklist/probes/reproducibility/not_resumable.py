from itertools import count, repeat

from torch import nn

from training_checklist.instruments import KEEPING, Example, SeededRuns, Small
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

HOOKS = Place(note="on_save_checkpoint, on_load_checkpoint, or names in the network that change from run to run")


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    error = seeded.resumed.error
    if error is None and seeded.resumed.found is None:
        raise CannotJudge(seeded.resumed.obstacle)
    if error is not None and error.rule == "crash/state-dict-mismatch" and seeded.runs.one.seed != seeded.runs.two.seed:
        raise CannotJudge("no seed decides which network a run makes, and another one may be made to resume")
    if error is not None and not seeded.resumed.pickled:
        place = error.place if error.place.file or error.place.module else HOOKS
        fix = error.fix if error.fix.advice else None
        yield Hit(f"a checkpoint cannot be resumed: {error.what}", place, error.why or None, fix)


class Named(Small):
    """Has a layer whose name is another one in each network that is built, or the same."""

    names = count()

    def __init__(self) -> None:
        super().__init__()
        self.add_module(f"layer{next(self.names)}", nn.Linear(4, 4))


PROBE = Probe(
    question="Can training be resumed from a checkpoint of the run?",
    why="whatever interrupts the run, it begins anew",
    fix=Fix("load what the checkpoint holds into a network that is built alike"),
    detect=detect,
    faulty=Example(Named, trainer=KEEPING),
    healthy=Example(type("Alike", (Named,), {"names": repeat(0)}), trainer=KEEPING),
)
