import math

from torch.nn import functional

from training_checklist.instruments import Step, broadcast, by, criterion_inputs
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe

REGRESSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}

OF_ONE_SAMPLE = "each output is compared with several targets of its sample, and the best answer is their mean"
TOO_FEW = Fix(
    "give the network an output for each target; where one is meant, compare with target.mean(1, keepdim=True)"
)


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
            # Of one length, the outputs meet targets of their own samples alone, as ratings of several people are.
            own = (OF_ONE_SAMPLE, TOO_FEW, WARNING) if len(shape) == len(target) and shape[0] == target[0] else ()
            what = f"{given.name} gets {by(shape)} against {by(target)}: broadcast to {by(common)}"
            yield Hit(what, given.place, *own)


PROBE = Probe(
    question="Do the outputs and the targets of a regression loss have one shape, so that neither is broadcast?",
    why="outputs are compared with the targets of other samples, and the best answer is the mean of all targets",
    fix=Fix("give both one shape: target.view_as(output), or output.squeeze(1)"),
    detect=detect,
    faulty=lambda answers, labels: functional.mse_loss(answers[:, :1], labels.float()),
    also_faulty=(lambda answers, labels: functional.mse_loss(answers[:, :1], answers.detach() + 1),),
    healthy=lambda answers, labels: functional.mse_loss(answers[:, 0], labels.float()),
)
