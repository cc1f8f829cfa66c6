from training_checklist.instruments import Data, MappedDataset, Split, agreement, fits, is_less, label_fits, on_datasets
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for fit in label_fits(data, split):
        if not fits(fit.within):
            raise CannotJudge("class centres tell no classes of the training set")
        own = agreement(fit.within)
        # Neither by the training set's centres nor by their own: inputs of another kind would fit their own.
        lost = not fits(fit.across) and is_less(fit.across, own) and not fits(fit.held) and is_less(fit.held, own)
        if lost and not fit.moved():
            yield Hit(
                f"labels of {split.name} do not fit its inputs: {agreement(fit.across):.0%} of them lie nearest to the "
                f"centre of their class in the training set and {agreement(fit.held):.0%} to that in their own split; "
                f"{own:.0%} do within the training set",
                split.place,
            )


PROBE = Probe(
    question="Do the labels of validation and test samples fit their inputs as well as those of training samples do?",
    why="labels of that split are shuffled, or read from other samples: its metrics say nothing",
    fix=Fix("look at some of its samples with their labels"),
    detect=detect,
    faulty=on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x, y * 0 + index // 4 % 4))),
    healthy=on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x, y))),
    also_healthy=(on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x.roll(3), y))),),
)
