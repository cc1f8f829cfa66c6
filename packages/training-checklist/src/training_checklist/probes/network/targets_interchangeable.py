from training_checklist.instruments import Step, compared_tensors
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for tensor in compared_tensors(step):
        if not tensor.belongs:
            yield Hit(
                f"the loss depends on {tensor.leaf}, and it is the same whichever sample an entry of it belongs to"
                f"{f': {tensor.meeting}' if tensor.meeting else ''}",
                tensor.where,
            )


PROBE = Probe(
    question="Does the loss change when the targets of the batch are given to other samples?",
    why="each output is compared with the targets of all samples, as where (B, 1) is broadcast against (B,): the best "
    "output is one and the same for all",
    may_be_wrong="a loss that compares distributions, as of a GAN, has no target for each sample",
    fix=Fix("give both one shape before they are compared; print the shape of the loss before its mean"),
    detect=detect,
    faulty=lambda answers, labels: (answers[:, None, 0] - labels).square().mean(),
    healthy=lambda answers, labels: (answers[:, 0] - labels).square().mean(),
    also_healthy=(lambda answers, labels: (answers[:, 0] - labels - 50).abs().mean(),),
)
