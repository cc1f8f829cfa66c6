from copy import deepcopy
from typing import Any

from torch import Tensor, nn

from training_checklist.instruments import LayerModes, TwoEpochs, Validated
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    modes = run.heard()
    unmoved = [
        path for path in modes.norms_without_data if path not in modes.eval_in_training
    ]  # those are another rule's
    if unmoved:
        yield Hit(
            f"validation normalises by running statistics that are still 0 and 1 in {', '.join(unmoved[:3])}, "
            f"whose weights have changed",
            Place(module=", ".join(unmoved)),
        )


class Averaged(Validated):
    """A network beside a copy of it, which is validated."""

    with_buffers = False

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
        self.copy = deepcopy(self.net).requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        return (self.net if self.training else self.copy)(inputs)

    def on_train_batch_end(self, *_: Any) -> None:
        state = self.net.state_dict() if self.with_buffers else dict(self.net.named_parameters())
        self.copy.load_state_dict(state, strict=False)


PROBE = Probe(
    question="Have the running statistics that validation uses been updated by any batch?",
    why="the network was trained with other inputs than it gets there: a copy, such as an average of weights, was "
    "given parameters and no buffers",
    listener=LayerModes,
    detect=detect,
    fix=Fix("copy the buffers too: torch.optim.swa_utils.AveragedModel(net, use_buffers=True), or state_dict()"),
    faulty=Averaged,
    healthy=type("Whole", (Averaged,), {"with_buffers": True}),
)
