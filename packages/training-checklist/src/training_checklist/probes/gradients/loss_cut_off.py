from torch import Tensor

from training_checklist.instruments import FirstSteps, Small, missing_gradients, new_loss, several_steps
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    found, total = missing_gradients(steps), len(steps.holdings.trained)
    names = [name for group in found for name in group.names]
    if names and len(names) >= total:
        operation, place = new_loss(steps) or (found[0].cause.operation, found[0].cause.place)
        by = f": {operation} makes a new tensor of it, without the way back" if operation else ""
        yield Hit(f"{len(names)} of {total} parameters get no gradient, for the loss leads to none{by}", place)


class Detached(Small):
    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(answers, labels).detach().requires_grad_()


class DetachedInPart(Small):
    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        loss = super().loss(answers, labels)
        return loss / loss.detach()


PROBE = Probe(
    question="Does the loss have a graph that leads back to at least one parameter?",
    why="nothing is trained, whatever the loss does",
    fix=Fix("return the loss that the criterion gave; .item(), .detach(), no_grad and torch.tensor(loss) cut it off"),
    detect=detect,
    faulty=several_steps(Detached),
    healthy=several_steps(DetachedInPart),
)
