import torch
from torch import Tensor, nn

from training_checklist.instruments import (
    Criteria,
    Data,
    MappedDataset,
    Tracer,
    Validated,
    leaves,
    moved_look,
    of_the_project,
    on_datasets,
    part,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    varying = {name for names, inputs in data.seen.ranges.items() if inputs.low < inputs.high for name in names}
    for names, inputs in data.seen.ranges.items():
        # What has entered elsewhere may have been left out here, or stand beside a state of zeros; and a layer that is
        # given other numbers, too, may be asked for the answer at 0.
        if not varying.isdisjoint(names) or varies_in_others(data, names[0]):
            continue
        # A smaller input may be the same number for a reason: a constant feature, the mask of samples of one length.
        if inputs.low == inputs.high and (inputs.largest or inputs.low == 0):
            what = "the network" if inputs.largest else f"it from {inputs.place.note}"
            if inputs.largest and answers_differ(data):
                continue  # by what no layer takes, as the edges of a graph whose nodes have no features
            yield Hit(f"all values that enter {what} are {inputs.low:.3g}", inputs.place)


def varies_in_others(data: Data, leaf: str) -> bool:
    """Whether a tensor that is one number in the batches of the run is another one in further samples."""
    seen, more = leaves(data.seen.first).get(leaf), part(data, data.train).of(leaf)
    return seen is not None and more is not None and len(seen.unique()) == 1 < len(more.unique())


def answers_differ(data: Data) -> bool:
    """Whether the criterion is given other answers for other samples, which nothing random makes."""
    drawn = []
    with of_the_project("training_step, run again,"):
        look = moved_look(data.trainer, data.pl_module)
        look.module.eval()
        for seed in (0, 1):
            criteria = Criteria()
            with Tracer(look.module, criteria):
                look.at(data.seen.first, seed)
            drawn.append([call.input.flatten(1) for call in criteria.calls if call.input.ndim > 1])
    steady = [one for one, other in zip(*drawn, strict=False) if torch.equal(one, other)]
    return any(not bool(torch.isclose(each, each[:1]).all()) for each in steady)


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


class Beginning(Validated):
    """Is also asked for its answer at 0, from which a solution begins."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return super().training_step(batch, batch_idx) + self(batch[2]).square().mean()


class OfEdges(Validated):
    """Adds what the neighbours of a node have, of nodes that have no features."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        nodes = self.first(batch[0])
        return self.loss(self.head(nodes.index_add(0, batch[2], nodes).relu()), batch[1])


PROBE = Probe(
    question="Do the inputs of the network differ from sample to sample?",
    why="there is nothing to learn from inputs that are all the same",
    fix=Fix("look for an integer division, or a factor 0, on the way from the file"),
    detect=detect,
    faulty=on_datasets(lambda: MappedDataset(lambda index, x, y: (x // 100 * 0, y))),
    healthy=on_datasets(lambda: MappedDataset(lambda index, x, y: (x // 1, y))),
    also_healthy=(
        on_datasets(module=Remembering),
        on_datasets(module=Filtering),
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y, x * 0)), module=Beginning),
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x * 0 + 1, y, y)), module=OfEdges),
    ),
)
