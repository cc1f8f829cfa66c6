"""What the batches of a run show, while they go into the network and the criterion."""

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import getitem
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import inside, is_whole, leaves
from training_checklist.engines.compared import SAMPLES, first_of
from training_checklist.engines.criteria import Criteria
from training_checklist.engines.entrances import MULTIPLIES, Entrance, Entrances
from training_checklist.finding import Place
from training_checklist.lab.class_weights import WeightedClasses, WeightedPositives
from training_checklist.lab.differences import Differences
from training_checklist.lab.roles import Roles, roles_of

TAKES_COLUMNS = {"linear", "lstm", "gru", "rnn_tanh", "rnn_relu"}
ROUNDED = 1e-4  # of the variance: what 8 bits or 16 leave out of it is less
MOST_COLUMNS = 256  # of a table: more numbers of a sample are those of an image or a waveform


@dataclass
class Form:
    """A tensor of a batch, without its values."""

    loader: str
    batch: int
    leaf: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"

    @property
    def place(self) -> Place:
        return Place(loader=self.loader, batch=self.batch, note=self.leaf)


def forms_of(batch: Any, where: Place) -> dict[str, Form]:
    """Return the form of each tensor of a batch, by its place in there."""
    found = leaves(batch).items()
    kinds = {place: (str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape)) for place, leaf in found}
    return {place: Form(where.loader, where.batch, place, *kind) for place, kind in kinds.items()}


@dataclass
class Entering:
    """The range, over all batches of the run, of what enters a layer that multiplies it with weights.

    Args:
        largest: whether it is the largest input of the network.
        columns: mean and standard deviation of each number that a linear or recurrent layer takes of a sample or step;
            none of layers that take more of them than a table has.
        joined: the other places in the batch of which there are numbers among them.
    """

    low: float
    high: float
    largest: bool
    place: Place
    columns: list[tuple[float, float]] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)


@dataclass
class Outside:
    """Labels without an output, or indices without a row, of those that were looked at.

    Args:
        wrong: each once.
        count: how many there are.
        number: of outputs or rows.
        place: of the first sample that has one.
    """

    wrong: list[int]
    count: int
    of: int
    number: int
    place: Place


def takes_columns(entrance: Entrance) -> bool:
    """Whether a layer takes columns of a table; one number that is made of several columns, a distance, is none."""
    value = entrance.value
    if entrance.operation not in TAKES_COLUMNS or value.ndim < 2 or value.shape[-1] > MOST_COLUMNS:
        return False
    return value.shape[-1] > 1 or entrance.columns == 1


def outside(indices: Tensor, number: int, place: Place, samples: list[Any] | None = None) -> Outside | None:
    """Return which indices are not in 0..number - 1, None where all are; `samples`: indices into the dataset."""
    wrong = (indices < 0) | (indices >= number)
    if not wrong.any():
        return None
    first = int(wrong.nonzero()[0, 0]) if wrong.ndim else None
    place = place.beside(sample=first if first is None or samples is None else samples[first])
    return Outside(indices[wrong].long().unique().tolist(), int(wrong.sum()), indices.numel(), number, place)


def not_finite(leaf: Tensor, name: str, place: Place, samples: list[int] | None = None) -> tuple[str, Place] | None:
    """Return what is not finite in a tensor of a batch, and where; None where all is."""
    wrong = ~leaf.isfinite()
    if not wrong.any():
        return None
    positions = wrong.nonzero()[:, 0].unique().tolist() if leaf.ndim else [0]
    kind, total = "NaN" if leaf.isnan().any() else "Inf", len(leaf) if leaf.ndim else 1
    text = f"{int(wrong.sum())} values of {name} are {kind}, in {len(positions)} of {total} samples"
    return text, place.beside(sample=positions[0] if samples is None else samples[positions[0]])


def is_rescaled(images: Tensor, others: Tensor) -> bool:
    """Whether each channel of some (N, C, ...) is that of the same images, but for a factor and a summand."""
    one, other = (each.transpose(0, 1).flatten(1) for each in (images, others))
    one, other = (each - each.mean(1, keepdim=True) for each in (one, other))
    factor = (one * other).sum(1, keepdim=True) / one.square().sum(1, keepdim=True).clamp(min=1e-12)
    return bool((other - factor * one).square().sum() <= ROUNDED * other.square().sum())


class Seen:
    """What the batches of a run show.

    Attributes:
        path: to the part of each training batch that is looked at, where several loaders make one together; prefix:
            of the places of its tensors.
        first: samples of the first training batch, of all loaders.
        forms: of all tensors that enter the network or the criterion, in the order of the run.
        losses: of training batches.
        labels: of training batches.
        spoilt: what is not finite, by loader and place in the batch.
        masked: places of what was not finite in a batch whose loss was: something leaves it out.
        labels_outside: those that a criterion was given first; tokens_outside: likewise of an embedding.
        entering: what the first layer takes, batch by batch, where it multiplies that with weights; layer: its name.
        altered: whether more than a scale and a shift of each channel lies between images of a batch and that.
        restored: whether a criterion compares answers with just that, as an autoencoder's does.
        ranges: by place in the batch and layer.
        whole_numbers: of each training batch.
        arrived: the forms of a training batch's tensors before its step, which may change them in place; by place.
    """

    def __init__(self) -> None:
        self.criteria, self.entrances, self.differences = Criteria(), Entrances(), Differences()
        self.weighted, self.positives = WeightedClasses(), WeightedPositives()
        self.where = Place(loader="train_dataloader")
        self.path, self.prefix = (), "batch"
        self.first: Any = None
        self.forms: list[Form] = []
        self.losses: list[float] = []
        self.labels: list[Tensor] = []
        self.spoilt: dict[tuple[str, str], tuple[str, Place]] = {}
        self.masked: set[str] = set()
        self.labels_outside: Outside | None = None
        self.tokens_outside: tuple[str, Outside] | None = None
        self.entering: list[Tensor] = []
        self.layer = ""
        self.altered = False
        self.restored = False
        self.ranges: dict[tuple[str, str], Entering] = {}
        self.whole_numbers: list[dict[str, Tensor]] = []
        self.coarse: dict[str, tuple[str, float, int]] = {}
        self.arrived: dict[str, Form] = {}

    def begin(self, batch: Any, batch_idx: int) -> None:
        self.where = Place(loader="train_dataloader", batch=batch_idx)
        self.criteria.calls.clear()
        self.entrances.begin(batch)
        self.arrived = forms_of(self.part(batch), self.where)

    def part(self, batch: Any) -> Any:
        return reduce(getitem, self.path, batch)

    def narrow(self, path: tuple[Any, ...], prefix: str) -> None:
        """Look at one loader's part of each training batch, from the present one on."""
        self.path, self.prefix = path, prefix
        self.arrived = {
            place: replace(form, leaf=place)
            for each, form in self.arrived.items()
            if (place := inside(each, prefix)) is not None
        }

    def roles(self, batch: Any) -> Roles:
        """Return what the tensors of the batch are for that has gone through a step."""
        self.first = first_of(batch, SAMPLES)
        for place, leaf in leaves(batch).items():
            if leaf.is_floating_point() and leaf.numel() > 1:
                values = leaf.detach().double()
                if bool(values.isfinite().all()) and bool((values == values.round()).all()):
                    limit = int(2 / torch.finfo(leaf.dtype).eps)  # up to which the type has every whole number
                    self.coarse[place] = str(leaf.dtype).removeprefix("torch."), float(values.abs().max()), limit
        compared = [*self.criteria.calls, *self.differences.of_losses]
        self.differences.of_losses.clear()  # they hold the graph
        return roles_of(batch, self.entrances, compared)

    def indices(self) -> None:
        """Look at the labels and tokens of the present step, whether or not it has come to its end."""
        for call in self.criteria.calls:
            if call.num_classes is not None and self.labels_outside is None:
                place = self.where.beside(module=call.place.module, file=call.place.file, line=call.place.line)
                self.labels_outside = outside(call.target[call.target != call.ignored], call.num_classes, place)
        for each in self.entrances.found:
            if each.rows is not None and self.tokens_outside is None:
                found = outside(each.value, each.rows, self.where.beside(module=each.place.module))
                self.tokens_outside = None if found is None else (each.leaf, found)

    def end(self, batch: Any, roles: Roles, loss: Tensor | None) -> None:
        """Look at a training batch whose step is over."""
        for each in self.entrances.found:
            self.finite(each.leaf, each.value, self.where)
        batch = self.part(batch)
        if self.path:
            self.entrances.narrow(self.prefix)
        self._layers(roles, leaves(batch).get(roles.input))
        self.see(batch, roles, self.where, self.arrived)
        whole = {place: leaf for place, leaf in leaves(batch).items() if leaf.ndim and is_whole(leaf)}
        self.whole_numbers.append({place: leaf.cpu() for place, leaf in whole.items()})
        self.losses += [] if loss is None else [float(loss)]
        if loss is not None and math.isfinite(float(loss)):
            self.masked |= {place for place, leaf in leaves(batch).items() if not bool(leaf.isfinite().all())}
        self.weighted.add(self.criteria.calls)
        self.positives.add(self.criteria.calls)
        self.criteria.calls.clear()
        self.differences.calls.clear()
        self.entrances.begin(None)

    def see(self, batch: Any, roles: Roles, where: Place, arrived: dict[str, Form] | None = None) -> None:
        """Look at a batch of training, which arrived in these forms, or at one of validation, before its step."""
        found, forms = leaves(batch), forms_of(batch, where) if arrived is None else arrived
        for place in roles.places:
            leaf = found.get(place)
            if leaf is None:
                continue
            self.forms += [forms[place]] if place in forms else []
            if place in roles.direct:
                self.finite(place, leaf, where)
            if place == roles.target and where.loader == "train_dataloader":
                self.labels.append(leaf.detach().cpu())

    def finite(self, name: str, leaf: Tensor, where: Place) -> None:
        found = not_finite(leaf, name, where) if (where.loader, name) not in self.spoilt else None
        if found is not None:
            self.spoilt[where.loader, name] = found

    def _layers(self, roles: Roles, given: Tensor | None) -> None:
        """Keep what layers take that multiply it with weights: a norm takes any scale."""
        first = next((each for each in self.entrances.found if each.leaf == roles.input), None)
        if first is not None and first.operation in MULTIPLIES and first.value.isfinite().all():
            self.layer = first.place.module or first.operation
            entered = first.value.cpu().double()  # not every device has float64
            self.entering.append(entered)
            if given is not None and given.shape == entered.shape and given.ndim > 3:
                self.altered |= not is_rescaled(given.cpu().double(), entered)
            targets = [call.target.cpu().double() for call in self.criteria.calls]
            self.restored |= any(torch.equal(target.flatten(), entered.flatten()) for target in targets)
        for each in self.entrances.found:
            if each.operation not in MULTIPLIES or not each.value.numel() or not each.value.is_floating_point():
                continue
            low, high = map(float, each.value.aminmax())
            place = Place(loader="train_dataloader", module=each.place.module or each.operation, note=each.leaf)
            new = Entering(low, high, each.leaf == roles.input, place, joined=sorted(each.beside))
            known = self.ranges.setdefault((each.leaf, each.place.module), new)
            known.low, known.high = min(known.low, low), max(known.high, high)
            if takes_columns(each):
                rows = each.value.flatten(0, -2).cpu().double()
                if len(rows) > 1 and not known.columns:  # the first batch has enough of them to tell
                    known.columns = list(zip(rows.mean(0).tolist(), rows.std(0).tolist(), strict=True))
