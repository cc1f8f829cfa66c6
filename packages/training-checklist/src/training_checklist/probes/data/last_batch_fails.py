from torch import Tensor

from training_checklist.instruments import (
    Data,
    Validated,
    as_in,
    by_index,
    call_step,
    diagnose,
    isolated,
    labelled,
    on_datasets,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    """Take the step of the last batch of an epoch, which this run does not come to, after one of a whole batch."""
    split, trainer, pl_module = by_index(data.train), data.trainer, data.pl_module
    usual = split.loader.batch_size
    rest = 0 if usual is None or split.loader.drop_last or split.samples < usual else split.samples % usual
    if rest == 0:
        raise CannotJudge("all batches of an epoch have the same number of samples")
    if not pl_module.automatic_optimization or trainer.world_size > 1:
        raise CannotJudge("manual optimisation would train, and other ranks may wait in the middle of a step")
    with isolated(pl_module), as_in("train", trainer), trainer.precision_plugin.forward_context():
        for number in (usual, rest):
            [(_, batch)] = split.fetch(split.chosen(number), trainer, data.until, number)
            try:
                call_step(pl_module, "training_step", data.whole(batch))
            except Exception as error:
                found = diagnose(error)
                if number == usual:
                    raise CannotJudge(f"the step fails with a whole batch, too: {found.what}") from None
                yield Hit(
                    f"the last batch of an epoch has {rest} samples, not {usual}, and the step fails: {found.what}",
                    found.place.beside(loader=split.name),
                )


class OfSixteen(Validated):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.view(16, 8))


PROBE = Probe(
    question="Does training_step work with a last batch that is smaller than batch_size?",
    why="training ends with an exception at the end of its first epoch; the same step works with a whole batch",
    fix=Fix("take the number of samples from the input (x.shape[0], flatten(1)), or drop_last=True"),
    detect=detect,
    faulty=on_datasets(lambda: labelled(100), module=OfSixteen),
    healthy=on_datasets(lambda: labelled(100)),
)
