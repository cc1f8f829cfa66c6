import torch
from torch import Tensor

from training_checklist.instruments import Data, MappedDataset, Validated, is_left_out, not_finite, on_datasets, part
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    """One finding for a loader and its dataset each."""
    for (_, name), (text, place) in data.seen.spoilt.items():
        if name not in data.seen.masked:
            yield Hit(text, place)
    for split in data.alike:
        own = part(data, split)
        for name in (data.roles.direct & set(own.values)) - data.seen.masked:
            found = not_finite(own.values[name], name, split.place, own.indices)
            if found is not None and not is_left_out(data, split, found[1].sample):
                yield Hit(*found)


def without(index: int) -> MappedDataset:
    return MappedDataset(lambda other, x, y: (x.where(torch.tensor(other != index), torch.nan), y))


class Filling(Validated):
    """Puts 0 where a number is missing."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.nan_to_num())


PROBE = Probe(
    question="Is every number that enters the network and the criterion finite?",
    why="one such value makes the loss NaN, and after the next step every weight",
    fix=Fix("look at that sample; drop or repair it in the dataset"),
    detect=detect,
    faulty=on_datasets(lambda: without(7)),
    healthy=on_datasets(lambda: without(-1)),
    also_faulty=(on_datasets(lambda: without(150)),),
    also_healthy=(on_datasets(lambda: without(150), module=Filling),),
)
