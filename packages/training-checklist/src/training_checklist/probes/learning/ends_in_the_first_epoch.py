import math

from training_checklist.instruments import TwoEpochs, several_steps
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    trainer = run.trainer
    batches, epochs = trainer.num_training_batches, trainer.max_epochs
    if trainer.max_steps <= 0 or epochs is None or epochs <= 0 or not math.isfinite(batches):
        raise CannotJudge("max_steps and max_epochs are not both given, or nobody knows how long an epoch is")
    steps = math.ceil(batches / trainer.accumulate_grad_batches)
    if epochs > 1 and trainer.max_steps < steps:
        yield Hit(
            f"max_steps={trainer.max_steps} ends training in its first epoch, which has {steps} steps; "
            f"max_epochs={epochs} is asked for",
            Place(note=f"Trainer(max_steps={trainer.max_steps}, max_epochs={epochs})"),
        )


PROBE = Probe(
    question="Does max_steps let training go beyond its first epoch, where max_epochs asks for several?",
    why="whichever limit comes first ends the run: most samples are never seen, and no epoch is validated as a whole",
    severity=WARNING,
    detect=detect,
    may_be_wrong="pretraining on a set that is read less than once ends there as planned",
    fix=Fix("max_steps=-1, or max_epochs=1 where so short a run is meant"),
    faulty=several_steps(max_steps=5, max_epochs=8),
    healthy=several_steps(max_steps=50, max_epochs=8),
)
