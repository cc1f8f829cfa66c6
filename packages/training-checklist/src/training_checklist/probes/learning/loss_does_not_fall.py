from torch import Tensor

from training_checklist.instruments import Small, TwoEpochs, range_test, shown, with_sgd
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    is_sound, test = run.is_sound, range_test(run)
    if test.learner is not None:
        return
    if test.moved:  # as the centre of a teacher's answers: where it goes, the targets go, too
        raise CannotJudge(f"training_step itself moves {shown(test.moved)}, and the loss with it")
    if not is_sound:
        raise CannotJudge("what was found before may be the cause")
    # A small rate in a long training is no fault: what has begun to fall may go on at its pace.
    whole_run = run.cut * run.steps
    if max(test.asked.fall, 0.0) / test.asked.steps * whole_run >= test.min_fall:
        return
    if test.out_of_time and test.asked.fall > 0:
        raise CannotJudge(
            f"the loss falls slowly, {test.asked}, and the time for trying was over (checks.learning.seconds)"
        )
    tried = [f"{each.change}={'null' if each.given is None else f'{each.given:.3g}'}" for each in test.tried]
    others = f"nor with {', '.join(tried)}" if tried else "no other setting was tried"
    ended = "; the time for trying was over" if test.out_of_time else ""
    yield Hit(
        f"the loss does not fall: {test.asked} on a few batches, {others}{ended}",
        Place(function="training_step", note="on copies of the network, without schedules and hooks"),
    )


class AtItsLeast(Small):
    weight = 0.0

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return 1 + self.weight * super().loss(answers, labels)


PROBE = Probe(
    question="Does the loss of a few batches fall when a copy of the network is trained on them?",
    why="a step along its gradient lowers a loss, unless the step is far too long or too short",
    severity=WARNING,
    detect=detect,
    may_be_wrong="a loss of rewards, or of a critic and a generator that work against one another, is not to fall",
    fix=Fix("where no loss is to fall, as with rewards, silence this rule", items=("overfit", "gradients")),
    faulty=with_sgd(AtItsLeast),
    healthy=with_sgd(type("Falling", (AtItsLeast,), {"weight": 1.0})),
    symptom=True,
)
