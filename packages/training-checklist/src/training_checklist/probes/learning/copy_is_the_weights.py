from collections import Counter

from torch import Tensor, nn

from training_checklist.instruments import Averages, Small, TwoEpochs
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    averages = run.heard()
    # What spectral_norm, or pruning, computes anew in each forward pass is the weight itself before the first one.
    computed = {name.removesuffix("_orig") for name, _ in run.pl_module.named_parameters() if name.endswith("_orig")}
    names = (name for name in averages.aliases if name not in computed)
    for owner, number in Counter(name.partition("[")[0] for name in names).items():
        yield Hit(
            f"{owner} keeps {number} tensors that share their memory with weights that train, of {averages.trained}: "
            "no copy, and no average, but what the weights are at any time",
            Place(note=owner),
        )


class Keeping(Small):
    copies = False

    def on_train_start(self) -> None:
        state = self.state_dict().items()
        self.kept = {name: value.clone() if self.copies else value for name, value in state}


class Viewing(Small):
    """Computes with a view of its weight, which stays behind as an attribute."""

    def forward(self, inputs: Tensor) -> Tensor:
        self.used = self.first.weight.unsqueeze(0)
        return super().forward(inputs) + 0 * self.used.sum()


class Waiting(Small):
    """Has a layer with a spectral norm that it does not call yet."""

    def __init__(self) -> None:
        super().__init__()
        self.later = nn.utils.spectral_norm(nn.Linear(4, 4))


PROBE = Probe(
    question="Are copies of the weights (for an average or a teacher) real copies that do not share memory?",
    why="state_dict() and detach() give the weights themselves; an average, a backup or the best state must be cloned",
    severity=WARNING,
    listener=Averages,
    detect=detect,
    fix=Fix("{name: value.detach().clone() for name, value in module.state_dict().items()}, or copy.deepcopy"),
    faulty=Keeping,
    healthy=type("Cloning", (Keeping,), {"copies": True}),
    also_healthy=(Viewing, Waiting),
)
