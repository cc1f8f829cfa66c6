from training_checklist.instruments import Data, MappedDataset, Split, agreement, fits, is_less, on_datasets, plain_fit
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    fit = plain_fit(data, split)
    if not fits(fit.held):
        raise CannotJudge("class centres tell no classes of the held-out split")
    own = agreement(fit.held)
    # A split whose samples are of another kind would fit its own centres.
    if not fits(fit.within) and is_less(fit.within, own) and not fits(fit.across) and is_less(fit.across, own):
        yield Hit(
            f"training labels have nothing to do with training inputs: {agreement(fit.within):.0%} lie nearest to the "
            f"centre of their class, {own:.0%} do in {split.name}",
            split.place.beside(loader="train_dataloader", note=""),
        )


PROBE = Probe(
    question="Do the labels of training samples fit their inputs as well as those of validation samples do?",
    why="they can be learned by heart and no better",
    fix=Fix("look for inputs and labels that were shuffled, sorted or filtered apart from one another"),
    detect=detect,
    symptom=True,
    faulty=on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y * 0 + index // 4 % 4))),
    healthy=on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y))),
    also_healthy=(on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x.roll(3), y))),),
)
