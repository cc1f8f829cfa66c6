import torch

from training_checklist.instruments import SeededRuns, Small, differing_names
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

KIND = "initial weight"


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    if not seeded.runs.rebuilt:
        raise CannotJudge("both runs got copies of one network; a function that makes it lets each make its own")
    runs = seeded.parted
    if runs is not None and runs.kind() == KIND:
        one, two = ({row.name: row.digest for row in each.rows if row.kind == KIND} for each in (runs.one, runs.two))
        different = differing_names([one, two])
        place, why = runs.at(Place(parameter=different[0], note="as it is initialised"), PROBE.why)
        what = f"two runs with one seed begin with different weights: {len(different)} of {len(one)} tensors"
        yield Hit(f"{what}; {different[0]} has {runs.numbers()}", place, why)


class Drawn(Small):
    seeded = False

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator()
        if not self.seeded:
            generator.seed()
        torch.nn.init.normal_(self.head.weight, generator=generator)


PROBE = Probe(
    question="Do two runs with one seed begin with the same weights?",
    why="the seed is the same in both: these are drawn before it is set, or from what it does not reach (numpy's "
    "default_rng(), the clock, the order of a set)",
    fix=Fix("seed_everything(cfg.seed, workers=True) as the training function's first line; draw with torch"),
    detect=detect,
    faulty=Drawn,
    healthy=type("Seeded", (Drawn,), {"seeded": True}),
)
