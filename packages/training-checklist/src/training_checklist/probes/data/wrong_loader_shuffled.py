from collections.abc import Iterator

from torch.utils.data import DataLoader

from training_checklist.instruments import Data, Order, labelled, on_datasets, order_of
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    training, shuffled = order_of(data, data.train), dict(shuffled_orders(data))
    if training.ascending and shuffled:
        names = ", ".join(shuffled)
        yield Hit(f"the training set is read in order ({training.sampler}), and {names} is shuffled", training.place)
        return
    for name, order in shuffled.items():
        if order.sampler == "RandomSampler":  # the sampler of a subset may know no other order
            yield Hit(
                f"{name} is shuffled",
                order.place,
                "metrics stay the same, but what is kept by batch or by row (predictions, pictures, the batches that "
                "limit_val_batches leaves) is of other samples each time; Lightning advises against it, too",
                Fix("shuffle=False for every loader but that of training"),
                severity=WARNING,
            )


def shuffled_orders(data: Data) -> Iterator[tuple[str, Order]]:
    """Yield each held-out split whose sampler draws single samples in an order that is not theirs."""
    for split in data.held_out:
        try:
            order = order_of(data, split)
        except CannotJudge:  # it draws no indices
            continue
        if order.plain and not order.ascending:
            yield split.name, order


PROBE = Probe(
    question="Is the training DataLoader the one that is shuffled, and not that of validation?",
    why="it looks as if shuffle=True had been given to the wrong loader",
    fix=Fix("shuffle=True for the training loader, shuffle=False for the others"),
    detect=detect,
    faulty=on_datasets(lambda: DataLoader(labelled(), 16), lambda: DataLoader(labelled(), 16, shuffle=True)),
    healthy=on_datasets(lambda: DataLoader(labelled(), 16)),
)
