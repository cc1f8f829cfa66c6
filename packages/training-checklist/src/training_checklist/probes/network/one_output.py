from torch.nn import functional

from training_checklist.instruments import Step, by, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        if given.name == "cross_entropy" and len(given.shape) > 1 and given.shape[1] == 1:
            yield Hit(f"cross_entropy gets one output for each sample ({by(given.shape)})", given.place)


PROBE = Probe(
    question="Does cross_entropy get two or more outputs for each sample, one for each class?",
    why="the softmax of a single output is 1 whatever it is: the loss is always 0",
    fix=Fix("give the network an output for each class, or use BCEWithLogitsLoss"),
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(answers[:, :1], labels * 0),
    healthy=lambda answers, labels: functional.cross_entropy(answers[:, :2], labels % 2),
    also_healthy=(lambda answers, labels: functional.mse_loss(answers[:, :1], labels[:, None].float()),),
)
