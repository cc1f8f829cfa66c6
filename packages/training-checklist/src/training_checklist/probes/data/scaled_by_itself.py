from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Split, normal, on_datasets, scaling
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for found in scaling(data, split):
        if found.standard["other"] > found.columns / 2:
            yield Hit(
                f"{found.standard['other']} of {found.columns} columns have mean 0 and deviation 1 over the "
                f"samples of {split.name} alone",
                split.place.beside(note=found.place),
            )


def standardised(by_itself: bool) -> Example:
    train, held = normal(160, 8), normal(160, 8, seed=1) + 0.5
    by, labels = held if by_itself else train, (train[:, 0] > 0).long()
    train, held = (train - train.mean(0)) / train.std(0), (held - by.mean(0)) / by.std(0)
    return on_datasets(lambda: TensorDataset(train, labels), lambda: TensorDataset(held, labels))


def by_days() -> Example:
    """Return factors of 20 stocks, standardised among each other on each of ten days."""
    inputs = normal(200, 8).view(10, 20, 8)
    inputs = ((inputs - inputs.mean(1, keepdim=True)) / inputs.std(1, keepdim=True)).view(200, 8)
    labels = (inputs[:, 0] > 0).long()
    return on_datasets(
        lambda: TensorDataset(inputs[:100], labels[:100]), lambda: TensorDataset(inputs[100:], labels[100:])
    )


PROBE = Probe(
    question="Are validation and test inputs standardised with the training set's mean and deviation, and not with "
    "their own?",
    why="the same number means something else in each split, and a single sample could not be scaled at all",
    fix=Fix("keep mean and deviation of the training set, and scale every split by them"),
    detect=detect,
    faulty=standardised(by_itself=True),
    healthy=standardised(by_itself=False),
    also_healthy=(by_days(),),
)
