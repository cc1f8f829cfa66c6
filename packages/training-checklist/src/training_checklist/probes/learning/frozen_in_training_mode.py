from torch import Tensor, nn

from training_checklist.instruments import FrozenModules, TwoEpochs, shown, with_part
from training_checklist.lightning import LightningModule
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    """Dropout inside of a network that trains in part, such as one with adapters, is left to it."""
    frozen, moving, dropping = [], [], []
    for path, norms, dropouts in run.heard().of_frozen():
        dropouts = [] if "." in path else dropouts
        frozen += [path] * bool(norms or dropouts)
        moving, dropping = [*moving, *norms], [*dropping, *dropouts]
    if frozen:
        does = [f"the running statistics of {shown(moving)} move"] * bool(moving)
        does += [f"{shown(dropping)} leaves values out at random"] * bool(dropping)
        is_what = "is frozen, and runs" if len(frozen) == 1 else "are frozen, and run"
        what = f"{shown(frozen)} {is_what} in training mode: {', and '.join(does)}"
        yield Hit(what, Place(module=shown(frozen)))


class Teacher(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.1))
        self[1].running_mean += 0.1  # as pretraining leaves it
        self.requires_grad_(False)


def beside(teacher: nn.Module, answers: Tensor) -> Tensor:
    return answers + teacher(answers)


class Kept(with_part(Teacher, beside)):
    def __init__(self) -> None:
        super().__init__()
        self.part.eval()


def with_adapter() -> nn.Module:
    embedding = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)).requires_grad_(False)
    return nn.Sequential(embedding, nn.Linear(4, 4))


def features() -> nn.Module:
    """Return a network that stays as it is drawn, with a norm that finds the statistics of the data."""
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).requires_grad_(False)


class Averaging(with_part(Teacher, beside)):
    def on_train_batch_end(self: LightningModule, *_: object) -> None:
        for weight in self.part.parameters():
            weight.data.mul_(0.99)


PROBE = Probe(
    question="Does every frozen module run in eval mode, so that it gives the same answer to a sample each time?",
    why="requires_grad_(False) stops the optimizer alone; statistics that move and dropout make another network of the "
    "one that was loaded",
    severity=WARNING,
    listener=FrozenModules,
    detect=detect,
    may_be_wrong="norms are to take on the statistics of new data, or dropout is to vary the features",
    fix=Fix("call eval() on it where it is frozen; Lightning leaves that as it is, and train() undoes it"),
    faulty=with_part(Teacher, beside),
    healthy=Kept,
    also_healthy=(with_part(features, beside), Averaging, with_part(with_adapter, beside)),
)
