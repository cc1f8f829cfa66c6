import torch

from training_checklist.instruments import SeededRuns, Small
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    runs = seeded.runs
    if runs.parted is None or runs.one.seed == runs.two.seed:
        return
    row = runs.parted[0]
    place = runs.seeds[0] if runs.seeds else Place()
    place, why = runs.at(place.beside(parameter=row.name) if row.kind == "initial weight" else place, PROBE.why)
    yield Hit(
        f"no seed is set, or another one in each run: torch's was {runs.one.seed} and {runs.two.seed}, and the runs "
        f"part in the {f'{row.kind} {row.name}'.strip()} of step {row.step}: {runs.numbers()}",
        place,
        why,
        fix=Fix(overrides=tuple(f"{key.key}=42" for key in runs.seeds[:1])) if runs.seeds else None,
    )


class Begun(Small):
    seed = staticmethod(torch.seed)

    def __init__(self) -> None:
        self.seed()
        super().__init__()


PROBE = Probe(
    question="Is a seed set, so that two runs of one command begin with the same one?",
    why="a process begins with a seed that torch draws: nothing that comes out can be had once more",
    fix=Fix("seed_everything(cfg.seed, workers=True) as the training function's first line"),
    detect=detect,
    faulty=Begun,
    healthy=type("Seeded", (Begun,), {"seed": staticmethod(lambda: torch.manual_seed(1))}),
)
