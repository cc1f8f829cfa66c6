from training_checklist.instruments import Small, Stages, of_function
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(stages: Stages, limits: Limits) -> Hits:
    if stages.first_loss is None and stages.pl_module.automatic_optimization:
        what = "training_step returned None, so that Lightning skipped the batch without a word"
        yield Hit(what, of_function(type(stages.pl_module).training_step))


class Silent(Small):
    def training_step(self, batch: list, batch_idx: int) -> None:
        self.loss(self(batch[0]), batch[1])


PROBE = Probe(
    question="Does training_step return a loss?",
    why="no gradient is computed and no weight changes in such a step",
    fix=Fix("return the loss; return None on purpose only, to skip a batch"),
    detect=detect,
    faulty=Silent,
    healthy=type("Manual", (Silent,), {"automatic_optimization": False}),
)
