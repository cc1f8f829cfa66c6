from torch.utils.data import DataLoader

from training_checklist.instruments import Data, labelled, of_data, order_of
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    order = order_of(data, data.train)
    others = []
    for split in data.held_out if order.ascending else ():
        try:
            other = order_of(data, split)
        except CannotJudge:  # it draws no indices
            continue
        others += [split.name] if other.plain and not other.ascending else []
    if others:
        yield Hit(
            f"the training set is read in order ({order.sampler}), and {', '.join(others)} is shuffled", order.place
        )


PROBE = Probe(
    question="Is the training DataLoader the one that is shuffled, and not that of validation?",
    why="it looks as if shuffle=True had been given to the wrong loader",
    fix=Fix("shuffle=True for the training loader, shuffle=False for the others"),
    detect=detect,
    faulty=of_data(lambda: DataLoader(labelled(), 16), lambda: DataLoader(labelled(), 16, shuffle=True)),
    healthy=of_data(lambda: DataLoader(labelled(), 16)),
)
