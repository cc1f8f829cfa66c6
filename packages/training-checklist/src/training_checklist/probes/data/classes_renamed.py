from training_checklist.instruments import Data, MappedDataset, Split, agreement, label_fits, on_datasets
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for fit in label_fits(data, split):
        moved = fit.moved()
        if moved:
            shown = ", ".join(f"{label} looks like {seen}" for label, seen in list(moved.items())[:4])
            yield Hit(
                f"labels of {split.name} mean other classes than in training: "
                f"{shown}{', ...' if len(moved) > 4 else ''} ({len(moved)} of {len(fit.labels)} classes); by the class "
                f"centres of the training inputs {agreement(fit.across):.0%} of its labels fit, "
                f"{agreement(fit.within):.0%} within the training set",
                split.place,
            )
        elif not (2 * fit.within.diagonal() > fit.within.sum(1)).any():
            raise CannotJudge("class centres tell no class of the training set")


PROBE = Probe(
    question="Does a label stand for the same class in all splits?",
    why="metrics there are wrong however good the network is",
    fix=Fix("use one mapping from names to labels in all splits, and look for an offset in how labels are read"),
    detect=detect,
    faulty=on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x, (y + 1) % 4))),
    healthy=on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x, (y + 4) % 4))),
)
