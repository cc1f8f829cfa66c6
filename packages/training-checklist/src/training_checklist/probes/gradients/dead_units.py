import torch
from torch import Tensor

from training_checklist.instruments import Example, FirstSteps, Small, several_steps
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    steps.ask_for_symptoms()
    known = [seen for seen in steps.units.calls if seen.alive and seen.rows >= limits.dead_rows]
    if not known:
        raise CannotJudge(f"no relu, tanh or sigmoid has been given {limits.dead_rows} inputs")
    for seen in known:
        alive = max(seen.alive.values(), key=lambda units: float(units.float().mean()))
        dead, total = int((~alive).sum()), len(alive)
        is_hinge = total == 1  # of a loss: it is 0 where a constraint is kept; of a network with one output others tell
        if dead > limits.dead_share * total and not is_hinge:
            yield Hit(
                f"{dead} of {total} units of {seen.name} have a slope of exactly 0 for each of {seen.rows} inputs",
                seen.place,
            )


def flat(number: int, epochs: int = 5) -> Example:
    """Make so many of 16 units flat."""

    class Flat(Small):
        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(torch.relu(self.first(inputs) - 200.0 * (torch.arange(16) < number)))

    return several_steps(Flat, batch_size=16, max_epochs=epochs)


class Constrained(Small):
    """Has a penalty for what its answers never come to."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(answers, labels) + torch.relu(answers.mean(1, keepdim=True) - 100.0).mean()


PROBE = Probe(
    question="Do most units of every activation function pass on a gradient (are few of them dead)?",
    why="such a unit gives the same for all inputs, and nothing is trained through it; a bias or an input far from 0, "
    "or a step that was too long, fits",
    severity=WARNING,
    may_be_wrong="a network that is to be sparse, by an L1 penalty or top-k, has many units without a gradient",
    fix=Fix("normalise the inputs, or look at the initialisation; trace shows the ranges", items=("trace",)),
    detect=detect,
    thresholds={
        "dead_share": Threshold(
            0.9,
            "of a function's units: up to 0.56 were measured in plain ReLU networks of 8 to 16 layers, 0.38 in a graph "
            "network, and at most 0.31 with norms or Kaiming's initialisation; so 0.5, as SageMaker Debugger's "
            "DeadRelu has it, is no fault yet",
            factor=1.1,
            healthy=flat(14),
        ),
        "dead_rows": Threshold(
            100,
            "inputs: a unit that has a slope for 5 % of them has none for all of 100 with a probability of 0.6 %",
            factor=2.0,
            healthy=flat(15, epochs=2),
        ),
    },
    faulty=flat(15),
    healthy=flat(9),
    also_healthy=(several_steps(Constrained, batch_size=16, max_epochs=5),),
    symptom=True,
)
