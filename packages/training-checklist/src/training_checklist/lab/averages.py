"""Moving averages of weights, known by their steps: each time they go a share of the way to the present weights."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from training_checklist.engines.batches import is_dense
from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.held import held, places
from training_checklist.engines.own_code import is_own_class
from training_checklist.engines.uncopied import after_forward
from training_checklist.experiments.watch.look import sample
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.epochs import EpochListener
from training_checklist.lab.examples import Example, Small, several_steps
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import LightningModule, Trainer

LOOKED_AT = 2  # weights, the largest
OFF = 1e-2  # of a step of the average: what of it may lead elsewhere
ROUNDINGS = 2  # of each entry: its product and its sum


@dataclass
class Average:
    """Tensors that go towards the weights, each time by a share of the way.

    Args:
        name: of what keeps them: "EMA.shadow['net.weight']".
        shares: of the way, each time that they went.
        times: that they will in the whole training, as the project's files have it.
        asked: whether a training step asks what keeps them: a target network is slow on purpose.
        off: how far it was from the weights before training, as a share of their norm.
    """

    name: str
    shares: list[float]
    times: float
    place: Place = NOWHERE
    asked: bool = False
    off: float = 0.0

    def is_steady(self, most: float) -> bool:
        """Whether the shares are one number, and no decay that is still rising."""
        return len(self.shares) > 1 and max(self.shares) <= most * min(self.shares)


@dataclass
class Copies:
    """Tensors beside the weights that each began as one of them, while all these weights train.

    Args:
        owner: what keeps them: "target", "EMA.shadow".
        moved: names of those that have changed since.
        still: of those that have not, though their weights have.
    """

    owner: str
    moved: list[str]
    still: list[str]
    place: Place = NOWHERE


class Averages(EpochListener):
    """Looks after each batch at tensors that are no weights, but have the shape of one and begin with its values.

    Attributes:
        aliases: names of what shares its memory with a weight that trains.
        trained: number of weights that train.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        matrices = [each for each in run.pl_module.parameters() if trains(each) and each.ndim > 1]
        self.weights = sorted(matrices, key=Tensor.numel, reverse=True)[:LOOKED_AT]
        self.before_batch: dict[str, Tensor] = {}
        self.shares: dict[str, list[float]] = {}
        self.others: set[str] = set()  # names of what has moved, and not towards a weight
        self.aliases: set[str] = set()
        self.trained = 0
        self.moves = 0  # batches that have changed the weights
        self._last: list[Tensor] = []
        self._shared: dict[str, Tensor] = {}
        self.asked: set[str] = set()  # modules that a training step asks
        self.copies = list(self._copies())
        self.off = dict(self._distances())  # by names of what was there before training
        for path, module in run.pl_module.named_modules():
            if any(not parameter.requires_grad for parameter in module.parameters(recurse=False)):
                self.watching.callback(after_forward(module, partial(self._see_call, path)).remove)

    def _see_call(self, path: str, *_: Any) -> None:
        if self.run.trainer.training:
            self.asked.add(path)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Leave out what the weights themselves are set to, as by Lookahead (Zhang et al. 2019): they train so."""
        if not self.shares:
            return
        now = [(weight.shape, sample(weight)) for weight in self.weights]
        for name, tensor in self._candidates():
            if name in self.shares and any(
                tensor.shape == shape and torch.equal(sample(tensor), weight) for shape, weight in now
            ):
                self.others.add(name)

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = [sample(weight).clone() for weight in self.weights]
        last = self._last or now
        moved = any(not torch.equal(*pair) for pair in zip(now, last, strict=True))
        self.moves += moved
        self._last = now
        known = trained(pl_module)
        for name, tensor in self._candidates():
            for weight, values in zip(self.weights, zip(now, last, strict=True), strict=True):
                if tensor.shape != weight.shape or tensor.data_ptr() in known or name in self.others:
                    continue
                own = sample(tensor).clone()
                if moved and name in self.before_batch:
                    self._compare(name, self.before_batch[name], own, values)
                self.before_batch[name] = own
                break
        if batch_idx == 0:
            self._look_for_aliases()

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == dataloader_idx == 0:
            self._look_for_aliases()

    def _look_for_aliases(self) -> None:
        known = trained(self.run.pl_module)
        self.trained = len(known)
        shared = {
            name: tensor
            for name, tensor in self._candidates()
            if tensor.data_ptr() in known and not isinstance(tensor, nn.Parameter) and not tensor.requires_grad
        }
        # Nobody keeps the view of a weight that each forward makes anew.
        self.aliases |= {name for name, tensor in shared.items() if self._shared.get(name) is tensor}
        self._shared = shared

    def _candidates(self, of_libraries: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield what is no weight that trains, by its name; also what callbacks of libraries keep, if asked."""
        module, callbacks = self.run.pl_module, self.run.trainer.callbacks
        for name, parameter in (*module.named_parameters(), *module.named_buffers()):
            if not parameter.requires_grad and may_follow(parameter):
                yield name, parameter
        callbacks = [each for each in callbacks if not type(each).__module__.startswith("training_checklist.")]
        callbacks = [each for each in callbacks if of_libraries or is_own_class(type(each))]
        for place, value in places(module, callbacks):
            yield from ((name, each) for name, each, _ in held(value, place) if may_follow(each))

    def _compare(self, name: str, before: Tensor, own: Tensor, weights: tuple[Tensor, ...]) -> None:
        """Look which share of the way an average has gone; the project's hooks come after this, or before it."""
        step = float((own - before).double().norm())
        if not step:
            return
        rounding = ROUNDINGS * torch.finfo(own.dtype).eps * float(own.double().norm())
        for weight in weights:
            share, off = share_of_way(before, own, weight)
            if 0 < share < 1 + OFF and off < OFF * step + rounding:
                self.shares.setdefault(name, []).append(share)
                return
        self.others.add(name)

    def _copies(self) -> Iterator["Copy"]:
        """Yield what is equal to one weight that trains, and to no other."""
        weights: dict[str, list[tuple[str, Tensor]]] = defaultdict(list)
        for name, weight in self.run.pl_module.named_parameters():
            if trains(weight):
                weights[digest_of(weight.detach())].append((name, weight))
        known = trained(self.run.pl_module)
        for name, tensor in self._candidates(of_libraries=False):  # a library's follow what it means them to
            if not is_lazy(tensor) and tensor.numel() and tensor.data_ptr() not in known:
                equal = weights[digest_of(tensor.detach())]
                if len(equal) == 1:
                    yield Copy(name, tensor, *equal[0], sample(tensor).clone())

    def _distances(self) -> Iterator[tuple[str, float]]:
        """Yield the name of what has the shape of a weight, and its least distance from one; not of zeros."""
        for name, tensor in self._candidates(of_libraries=False):
            alike = [sample(weight) for weight in self.weights if weight.shape == tensor.shape]
            own = sample(tensor)
            if alike and bool(own.any()):  # an average that begins with zeros is divided by what is missing
                yield name, min(float((own - weight).detach().norm() / weight.detach().norm()) for weight in alike)

    def followed(self) -> list[Copies]:
        """Return which copies of weights that have moved have moved, too, by what keeps them.

        Where others go a share of their way in each step, what that is for a copy may be less than its rounding: so it
        is with the bias before a norm, which has no gradient but for rounding.
        """
        copies: dict[str, list[Copy]] = defaultdict(list)
        for each in self.copies:
            if each.way.any():
                copies[each.owner].append(each)
        found = []
        for owner, own in copies.items():
            moved = [each for each in own if each.gone.any()]
            share = min((float(each.gone.norm() / each.way.norm()) for each in moved), default=1.0) / max(self.moves, 1)
            still = [each for each in own if not each.gone.any() and each.shows(share)]
            found.append(Copies(owner, [each.name for each in moved], [each.name for each in still], Place(note=owner)))
        return found

    def found(self) -> list[Average]:
        """Return the average of the weights, if there is one: all its tensors go alike, so that it has the first."""
        return [
            # The first are of differences that are hardly more than their roundings.
            Average(
                name,
                shares[len(shares) // 2 :],
                self.run.cut * self.run.steps * len(shares) / self.moves,
                Place(parameter=name),
                name.rpartition(".")[0] in self.asked,
                self.off.get(name, 0.0),
            )
            for name, shares in self.shares.items()
            if name not in self.others and self.moves
        ][:1]


@dataclass
class Copy:
    """A tensor that began as a weight.

    Args:
        path: name of the weight.
        began: of its numbers, the ones that are looked at, as they began.
    """

    name: str
    tensor: Tensor
    path: str
    weight: Tensor
    began: Tensor

    @property
    def way(self) -> Tensor:
        """How far the weight has gone."""
        return (sample(self.weight) - self.began).detach()

    @property
    def gone(self) -> Tensor:
        """How far the copy has."""
        return (sample(self.tensor) - self.began).detach()

    def shows(self, share: float) -> bool:
        """Whether a share of the weight's way is more than the rounding of a number of the copy."""
        return bool((share * self.way.abs() > torch.finfo(self.began.dtype).eps * self.began.abs()).any())

    @property
    def owner(self) -> str:
        """What keeps it, if that has names as the network has: "target" of target.0.weight and online.0.weight."""
        if "[" in self.name:
            return self.name.partition("[")[0]
        ends = zip(reversed(self.name.split(".")), reversed(self.path.split(".")), strict=False)
        return self.name.rsplit(".", sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends)))[0]


def may_follow(tensor: Tensor) -> bool:
    """Whether a tensor has numbers that can go along with a weight's, in a storage of their own."""
    return tensor.is_floating_point() and is_dense(tensor) and not is_lazy(tensor)


def trained(pl_module: LightningModule) -> set[int]:
    """Return where the weights that train have their numbers."""
    return {weight.data_ptr() for weight in pl_module.parameters() if trains(weight)}


def trains(weight: nn.Parameter) -> bool:
    """Whether a weight trains, and has numbers already: those of a lazy layer come with the first batch."""
    return weight.requires_grad and not is_lazy(weight) and weight.numel() > 0


def share_of_way(before: Tensor, now: Tensor, weight: Tensor) -> tuple[float, float]:
    """Return which share of the way to a weight a tensor has gone, and the norm of what has led elsewhere."""
    way, step = (weight - before).double(), (now - before).double()
    length = float(way.square().sum())
    share = float((step * way).sum()) / length if length else 0.0
    return share, float((step - share * way).norm())


def averaging(share: Callable[[int], float], off: float = 0.0) -> Example:
    """Make a training of 16 steps, after each of which an average goes a share of the way to the weights.

    Args:
        off: of their size, how far it is from them at the beginning.
    """

    class Averaging(Small):
        def __init__(self) -> None:
            super().__init__()
            self.average = {name: weight.detach() * (1 + off) for name, weight in self.named_parameters()}

        def on_train_start(self) -> None:
            self.unused = [nn.LazyLinear(4)]  # which has no numbers

        def on_train_batch_end(self, *_: Any) -> None:
            for name, weight in self.named_parameters():
                self.average[name] += share(self.global_step) * (weight.detach() - self.average[name])

    return several_steps(Averaging, max_epochs=2)
