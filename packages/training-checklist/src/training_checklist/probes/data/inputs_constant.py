import torch
from torch import Tensor, nn

from training_checklist.instruments import Data, MappedDataset, Validated, on_datasets
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    varying = {leaf for (leaf, _), inputs in data.seen.ranges.items() if inputs.low < inputs.high}
    for (leaf, _), inputs in data.seen.ranges.items():
        if leaf in varying:  # what has entered elsewhere may have been left out here, or stand beside a state of zeros
            continue
        # A smaller input may be the same number for a reason: a constant feature, the mask of samples of one length.
        if inputs.low == inputs.high and (inputs.largest or inputs.low == 0):
            what = "the network" if inputs.largest else f"it from {inputs.place.note}"
            yield Hit(f"all values that enter {what} are {inputs.low:.3g}", inputs.place)


class Remembering(Validated):
    """Adds what a state keeps, which begins at 0, and a token where there is no number, which is nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.keep, self.absent = nn.Parameter(torch.ones(8, 8)), nn.Parameter(torch.ones(8))

    def forward(self, inputs: Tensor) -> Tensor:
        absent = inputs.isnan().float()
        return super().forward(inputs + inputs.new_zeros(inputs.shape) @ self.keep + absent * self.absent)


class Filtering(Validated):
    """Has a state of the place and the speed, which begins at 0: a layer is given the speed alone."""

    def __init__(self) -> None:
        super().__init__()
        self.fix = nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        state = torch.cat([inputs, torch.zeros_like(inputs)], 1)
        return super().forward(inputs) + self.fix(state[:, 8:])


PROBE = Probe(
    question="Do the inputs of the network differ from sample to sample?",
    why="there is nothing to learn from inputs that are all the same",
    fix=Fix("look for an integer division, or a factor 0, on the way from the file"),
    detect=detect,
    faulty=on_datasets(lambda: MappedDataset(lambda index, x, y: (x // 100 * 0, y))),
    healthy=on_datasets(lambda: MappedDataset(lambda index, x, y: (x // 1, y))),
    also_healthy=(on_datasets(module=Remembering), on_datasets(module=Filtering)),
)
