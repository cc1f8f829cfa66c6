import ast
import re
from difflib import get_close_matches

import torch

from training_checklist.instruments import ModelCheckpoint, Monitored, TwoEpochs, own_kinds, tree_of, turns
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    if not run.monitors and not run.named:
        raise CannotJudge("no callback monitors a metric")
    for who, metric in (each for each in run.monitors if each[1] not in run.logged and not is_of_later(run, each[1])):
        near = nearest(metric, run)
        advice = f"monitor one of these; the nearest is {near[0]}" if near else "log it with self.log"
        yield Hit(
            f"{who} monitors {metric}, which nobody logs; logged: {', '.join(run.logged) or 'nothing'}",
            Place(note=f"{who}(monitor={metric!r})"),
            fix=Fix(advice),
        )
    for who, metric in (each for each in run.named if each[1] not in run.logged):
        near = nearest(metric, run)
        yield Hit(
            f"{who} writes {metric} into the names of checkpoints, and nobody logs it; logged: "
            f"{', '.join(run.logged) or 'nothing'}",
            Place(note=f"{who}(filename=...)"),
            "every name gets a 0 for what is not logged",
            Fix(f"name one of these, or {{epoch}} or {{step}}, which are always known{nearest_of(near)}"),
            WARNING,
        )


def nearest_of(near: list[str]) -> str:
    return f"; the nearest of these is {near[0]}" if near else "; or log it with self.log"


def nearest(metric: str, run: TwoEpochs) -> list[str]:
    """Return the name of what is logged that is most like another one: of a metric of validation, one of those."""
    of_validation = metric.startswith("val") and run.validated
    return get_close_matches(metric, run.validated if of_validation else run.logged, n=1, cutoff=0)


def is_of_later(run: TwoEpochs, metric: str) -> bool:
    """Whether the code names a metric where a condition on the epoch or the step holds, or in a method called there."""
    for kind in own_kinds([run.pl_module, *run.trainer.callbacks]):
        methods = {each.name: each for each in ast.walk(tree_of(kind)) if isinstance(each, ast.FunctionDef)}
        under = [inner for node in turns(kind) for inner in ast.walk(node)]
        called = methods.keys() & {each.attr for each in under if isinstance(each, ast.Attribute)}
        under += [inner for name in called for inner in ast.walk(methods[name])]
        if any(is_name(each, metric) for each in under):
            return True
    return False


def is_name(node: ast.AST, metric: str) -> bool:
    """Whether a piece of code is the name of a metric, or makes such names: f"val/{name}"."""
    if isinstance(node, ast.JoinedStr):
        parts = [re.escape(each.value) if isinstance(each, ast.Constant) else ".+" for each in node.values]
        return any(map(str.isalpha, "".join(parts))) and re.fullmatch("".join(parts), metric) is not None
    return isinstance(node, ast.Constant) and node.value == metric


class Fifth(Monitored):
    """Has a metric that takes long, and is logged every fifth epoch."""

    monitor = "val/distance"

    def on_validation_epoch_end(self) -> None:
        if (self.current_epoch + 1) % 5 == 0:
            self.log("val/distance", torch.tensor(1.0))

    def configure_callbacks(self) -> list:
        return [ModelCheckpoint(monitor=self.monitor, every_n_epochs=5)]


class FifthOfSeveral(Fifth):
    """Computes several of them in a method of its own."""

    def on_validation_epoch_end(self) -> None:
        if (self.current_epoch + 1) % 5 == 0:
            self.log_distances()

    def log_distances(self) -> None:
        self.log_dict({f"val/{name}": torch.tensor(1.0) for name in ("distance", "distortion")})


class Named(Monitored):
    """Names its checkpoints by a metric."""

    metric = "val/loss"

    def configure_callbacks(self) -> list:
        return [ModelCheckpoint(filename=f"{{epoch}}-{{{self.metric}:.2f}}")]


PROBE = Probe(
    question="Is every metric logged that a callback or an lr_scheduler monitors, or names checkpoints by?",
    why="it stops training with an exception, or never acts",
    detect=detect,
    fix=Fix("log it, or monitor another one"),
    faulty=type("Misspelt", (Monitored,), {"monitor": "val/lass"}),
    also_faulty=(type("NamedOtherwise", (Named,), {"metric": "val_loss"}),),
    healthy=Monitored,
    also_healthy=(Named, Fifth, FifthOfSeveral),
)
