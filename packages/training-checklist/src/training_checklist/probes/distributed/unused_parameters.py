from torch import nn

from training_checklist.instruments import Example, Ranks, Small, loader, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(ranks: Ranks, limits: Limits) -> Hits:
    unused = ranks.unused
    if unused.names:
        yield Hit(
            f"{len(unused.names)} of {unused.total} parameters got no gradient: {shown(unused.names)}",
            unused.step.beside(rank=str(unused.rank), batch=unused.batch, parameter=shown(unused.names)),
        )


class Wider(Small):
    trained = True

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(4, 4).requires_grad_(self.trained)


PROBE = Probe(
    question="Does every parameter get a gradient in every step, as DDP demands?",
    why="the strategy waits for the gradient of every parameter: the next step raises 'Expected to have finished "
    "reduction', or another rank waits for this one",
    fix=Fix(
        "or use them in the loss, or freeze them with requires_grad_(False)",
        overrides=("trainer.strategy=ddp_find_unused_parameters_true",),
    ),
    detect=detect,
    faulty=Example(Wider, lambda: loader(4)),
    healthy=Example(type("Frozen", (Wider,), {"trained": False}), lambda: loader(4)),
)
