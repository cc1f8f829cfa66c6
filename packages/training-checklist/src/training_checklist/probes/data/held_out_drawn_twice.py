from torch.utils.data import DataLoader, RandomSampler

from training_checklist.instruments import Data, Split, labelled, on_datasets, order_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    order = order_of(data, split)
    if order.plain and order.distinct < order.drawn:
        yield Hit(
            f"{order.sampler} draws {order.distinct} different samples of {split.name} in {order.drawn} draws: "
            "some are counted more than once",
            order.place,
        )


def validated(replacement: bool) -> DataLoader:
    samples = labelled()
    return DataLoader(samples, 16, sampler=RandomSampler(samples, replacement))


PROBE = Probe(
    question="Do validation and testing load every sample exactly once?",
    why="metrics weigh samples by how often they are drawn, and change with every pass where that is random",
    severity=WARNING,
    fix=Fix("no sampler and shuffle=False for validation and testing"),
    detect=detect,
    faulty=on_datasets(held_out=lambda: validated(replacement=True)),
    healthy=on_datasets(held_out=lambda: validated(replacement=False)),
)
