import torch

from training_checklist.instruments import Data, Example, MappedDataset, input_scale, leaves, on_datasets
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    tables = [inputs for inputs in data.seen.ranges.values() if inputs.columns]
    if not tables:
        raise CannotJudge("no layer takes columns of a table")
    if data.seen.entering and input_scale(data).pixels:
        raise CannotJudge("images of 8 bits are no tables: data/inputs-off-scale asks about them")
    for inputs in tables:
        sizes = [max(abs(mean), std) for mean, std in inputs.columns]
        far = [index for index, size in enumerate(sizes) if size > limits.max_column]
        if far:
            worst = max(far, key=sizes.__getitem__)
            mean, std = inputs.columns[worst]
            more = f", and {len(far) - 1} more of {len(sizes)}" if len(far) > 1 else f", of {len(sizes)} columns"
            leaf = leaves(data.seen.first).get(inputs.place.note)
            is_itself = leaf is not None and leaf.shape[-1] == len(sizes)
            parts = ", ".join([inputs.place.note, *inputs.joined])
            of = parts if is_itself else f"what is made of {parts}"
            yield Hit(
                f"column {worst} of {of} enters {inputs.place.module} with mean {mean:.3g} and standard "
                f"deviation {std:.3g}{more}",
                inputs.place.beside(note=parts),
            )


def moved(mean: float) -> Example:
    return on_datasets(lambda: MappedDataset(lambda index, x, y: (x + mean * torch.eye(8)[2], y)))


PROBE = Probe(
    question="Do all columns of a table enter the network with a mean near 0 and a standard deviation near 1?",
    why="one column outweighs the others, and a rate that is right for it is far too low for them",
    severity=WARNING,
    fix=Fix("subtract the mean of the training set from each column and divide by its standard deviation"),
    detect=detect,
    faulty=moved(20.0),
    healthy=moved(5.0),
    thresholds={
        "max_column": Threshold(
            10,
            "of mean or deviation: the loss curves with the square of an input, so that steps must be 100 times as "
            "short as for a standardised column (LeCun et al., Efficient BackProp, 1998, 4.3)",
        )
    },
)
