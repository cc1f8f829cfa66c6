import math

from torch.nn import functional

from training_checklist.instruments import Step, broadcast, by, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

REGRESSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        shape, target = given.shape, tuple(given.target.shape)
        common = broadcast(shape, target)
        if given.name not in REGRESSES or math.prod(target) == 1 or common is None:
            continue
        stretched = math.prod(common) > math.prod(shape)
        # (1, K, D) against (B, 1, D) compares all with all on purpose: the network's outputs are stretched too.
        meant = len(shape) == len(target) and math.prod(common) > math.prod(target)
        if stretched and not meant:
            yield Hit(f"{given.name} gets {by(shape)} against {by(target)}: broadcast to {by(common)}", given.place)


PROBE = Probe(
    question="Do the outputs and the targets of a regression loss have one shape, so that neither is broadcast?",
    why="outputs are compared with the targets of other samples, and the best answer is the mean of all targets",
    fix=Fix("give both one shape: target.view_as(output), or output.squeeze(1)"),
    detect=detect,
    faulty=lambda answers, labels: functional.mse_loss(answers[:, :1], labels.float()),
    healthy=lambda answers, labels: functional.mse_loss(answers[:, 0], labels.float()),
)
