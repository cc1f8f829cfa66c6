from torch import Tensor

from training_checklist.instruments import Changed, Data, Validated, of_data
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    forms, told = data.seen.forms, set()
    train = {form.leaf: form for form in reversed(forms) if form.loader == "train_dataloader"}
    for form in forms:
        # Inputs alone: labels may be mixed for training, and whole for validation.
        known = train.get(form.leaf) if form.leaf in data.roles.inputs else None
        if known is not None and known.dtype != form.dtype and (form.loader, form.leaf) not in told:
            told.add((form.loader, form.leaf))
            if form.loader != known.loader:
                yield Hit(f"{form.leaf} is {form} here and {known} in {known.loader}", form.place)


class Casting(Validated):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.float())


def double() -> Changed:
    return Changed(lambda index, x, y: (x.double(), y))


PROBE = Probe(
    question="Do inputs have the same type in all splits?",
    why="the network is trained on inputs of one kind and validated on another",
    fix=Fix("let both splits go through the same conversions"),
    detect=detect,
    faulty=of_data(held_out=double, module=Casting),
    healthy=of_data(double, double, module=Casting),
)
