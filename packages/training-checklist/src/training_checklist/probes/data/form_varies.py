from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.instruments import Changed, Data, Form, Validated, of_data
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    first: dict[tuple[str, str], Form] = {}
    told = set()
    for form in data.seen.forms:
        known = first.setdefault((form.loader, form.leaf), form)
        same = known.dtype == form.dtype and len(known.shape) == len(form.shape)
        if not same and (form.loader, form.leaf) not in told:
            told.add((form.loader, form.leaf))
            yield Hit(f"{form.leaf} is {form} here and {known} in batch {known.batch}", form.place)


class Casting(Validated):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.float())


def double_from(first: int) -> DataLoader:
    return DataLoader(Changed(lambda index, x, y: (x.double() if index >= first else x, y)), 16)


PROBE = Probe(
    question="Do the batches of a loader have one type and one number of dimensions?",
    why="the network or the criterion is given one kind of tensor and then another",
    fix=Fix("make the dataset or collate_fn return one form for every sample"),
    detect=detect,
    faulty=of_data(lambda: double_from(32), module=Casting),
    healthy=of_data(lambda: double_from(0), module=Casting),
)
