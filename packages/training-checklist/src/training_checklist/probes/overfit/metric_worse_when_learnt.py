from training_checklist.instruments import (
    Example,
    OneBatch,
    Small,
    better,
    is_metric,
    logged_by,
    of_function,
    of_the_project,
    stand_in,
    trained_with,
)
from training_checklist.lightning import is_overridden
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

OF_CODEBOOKS = {"perplexity", "ppl"}  # the more codes are in use, the higher; that of a text follows from its loss


def detect(batch: OneBatch, limits: Limits) -> Hits:
    if not batch.memorised or batch.distinct or batch.origin is None:
        raise CannotJudge("the batch was not memorised, so that nothing says of a metric that it has to be better")
    if not is_overridden("validation_step", batch.pl_module):
        raise CannotJudge("there is no validation_step")
    with of_the_project("validation_step, taken with the batch that was memorised,"):
        before, after = (
            logged_by(stand_in(each, batch.trainer).eval(), "val", batch.batch)[0]
            for each in (batch.origin.module, batch.pl_module)
        )
    falls = [before[name] - after[name] for name in before.keys() & after.keys() if "loss" in name.lower()]
    if not falls:
        raise CannotJudge("validation_step logs no loss, so that nothing says whether it is about the same as training")
    if max(falls) <= limits.along * (batch.totals[0] - min(batch.totals)):
        return
    for name in sorted(filter(is_metric, before.keys() & after.keys())):
        best, first, last = better(name), before[name], after[name]
        low, high = (last, first) if best == "max" else (first, last)
        is_of_codebook = any(word in name.lower() for word in OF_CODEBOOKS)
        if 0 <= low < limits.left * high and not is_of_codebook:
            yield Hit(
                f"{name} of one batch was {first:.3g}, and is {last:.3g} after that batch has been memorised: "
                f"{'more' if best == 'max' else 'less'} is better; the loss of the same step has fallen by "
                f"{max(falls):.3g}",
                of_function(type(batch.pl_module).validation_step).beside(note=name),
            )


def counting(self: Small, batch: list, batch_idx: int) -> None:
    self.log("val/loss", self.loss(self(batch[0]), batch[1]))
    self.log("val/perplexity", self.head.weight.norm().square())  # as that of a codebook, of which more comes into use


class Scored(Small):
    """Logs a part of its loss, and a mean of the shares of right and of wrong answers."""

    part, right = 1.0, 0.2

    def validation_step(self, batch: list, batch_idx: int) -> None:
        answers = self(batch[0])
        share = (answers.argmax(1) == batch[1]).float().mean()
        self.log("val/loss", self.part * self.loss(answers, batch[1]))
        self.log("val/acc", self.right * share + (1 - self.right) * (1 - share))


def scored(**parts: float) -> Example:
    return trained_with(module=type("Scored", (Scored,), parts))


PROBE = Probe(
    question="Is each metric of a batch better once the batch has been memorised?",
    why="what the loss calls better the metric calls worse: one of them has a wrong sign, order or target",
    may_be_wrong="a metric may be of something that the loss does not ask for",
    detect=detect,
    fix=Fix("look at the sign of what the metric is given, and at what it takes for best: the largest, or the first"),
    thresholds={
        "along": Threshold(
            0.5,
            "of what training's loss falls by: where that of validation falls by less, it is about something else",
            healthy=scored(part=0.3),
        ),
        "left": Threshold(
            0.5,
            "of the better value: what the loss asks for in part alone, such as the recall of a network that first "
            "says yes to everything, falls by less",
            healthy=scored(right=0.35),
        ),
    },
    faulty=scored(),
    healthy=scored(right=1.0),
    also_healthy=(trained_with(module=type("Codes", (Scored,), {"validation_step": counting})),),
)
