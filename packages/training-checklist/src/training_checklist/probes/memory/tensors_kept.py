import ast
from collections import deque
from functools import partial

from torch import Tensor, nn

from training_checklist.instruments import MemoryUse, Small, in_bytes, own_kinds, rises, tree_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold

ENDS = ("on_train_end", "on_fit_end")


def detect(use: MemoryUse, limits: Limits) -> Hits:
    epochs = len(use.kept) - 1
    for place in max(use.kept, key=len):
        sizes = [size[place] for size in use.kept]
        grown = sizes[-1] - sizes[0]
        rising = place not in use.leaking and rises(sizes, least=3) and grown >= limits.min_kept_kb * 1024 * epochs
        if rising and not is_meant(use, place.rpartition(".")[2]):
            yield Hit(
                f"{place} keeps {in_bytes(grown)} more after {epochs} epochs of {len(use.graphs)} steps in all",
                Place(note=place),
                fix=Fix(
                    "clear it when the epoch ends, or use a metric of torchmetrics; what is to fill up to a size "
                    "of its own, such as a replay buffer, says so with collections.deque(maxlen=...)"
                ),
            )


def is_meant(use: MemoryUse, name: str) -> bool:
    """Whether code takes entries out of what has a name, keeps the last of them, or reads it at the end of training."""

    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == name

    for kind in own_kinds([*use.pl_module.modules(), *use.trainer.callbacks]):
        for node in ast.walk(tree_of(kind)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in ENDS:
                if any(map(is_it, ast.walk(node))):
                    return True
            elif isinstance(node, ast.Attribute) and node.attr in ("pop", "popleft") and is_it(node.value):
                return True
            elif isinstance(node, ast.Subscript) and is_it(node.value):
                is_last = isinstance(node.slice, ast.Slice) and isinstance(node.slice.lower, ast.UnaryOp)
                if is_last or isinstance(node.ctx, ast.Del):
                    return True
    return False


class Buffer:
    """Keeps the last so many batches of answers."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.entries = capacity, []

    def append(self, entry: Tensor) -> None:
        self.entries = [*self.entries, entry][-self.capacity :]


class Collecting(Small):
    """Keeps what it answers, of 16 bytes a sample, so many times over."""

    times, cleared, container = 4, False, list

    def __init__(self) -> None:
        super().__init__()
        self.answers = self.container()

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        self.answers.append(self(batch[0]).detach().repeat(self.times, 1))
        return super().training_step(batch, batch_idx)

    def on_train_epoch_end(self) -> None:
        if self.cleared:
            self.answers.clear()


class LastTen(Collecting):
    """Keeps the answers of the last ten steps."""

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        if len(self.last) > 10:
            self.last.pop(0)
        self.last.append(self(batch[0]).detach().repeat(self.times, 1))
        return Small.training_step(self, batch, batch_idx)

    def __init__(self) -> None:
        super().__init__()
        self.last = []


class Mapping(Collecting):
    """Keeps how sure it was of each sample, for a map of them all."""

    def __init__(self) -> None:
        super().__init__()
        self.sure = []

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        self.sure.append(self(batch[0]).detach().repeat(self.times, 1))
        return Small.training_step(self, batch, batch_idx)

    def on_train_end(self) -> None:
        print(sum(each.mean() for each in self.sure))


class Waiting(Small):
    """Keeps its network among its hyperparameters, too, which gets its weights from the first batch; and losses."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LazyLinear(512)
        self.hparams.update(net=self.net, losses=[])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs)

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.hparams["losses"].append(loss.detach())
        return loss


class UpTo(Collecting):
    def __init__(self) -> None:
        super().__init__()
        self.answers_size = 1000


PROBE = Probe(
    question="Are the tensors that an epoch collects cleared when it is over?",
    why="what is collected and never cleared fills memory in the end",
    severity=WARNING,
    fix=Fix("clear it when the epoch ends"),
    detect=detect,
    thresholds={
        "min_kept_kb": Threshold(
            1,
            "KiB in an epoch: a list of losses, 4 bytes a step, is less for up to 256 steps",
            healthy=type("Little", (Collecting,), {"times": 1}),
        )
    },
    faulty=Collecting,
    healthy=type("Clearing", (Collecting,), {"cleared": True}),
    also_healthy=(
        type("Replaying", (Collecting,), {"container": partial(Buffer, 1000)}),
        type("Queueing", (Collecting,), {"container": partial(deque, (), 1000)}),
        UpTo,
        LastTen,
        Mapping,
        Waiting,
    ),
)
