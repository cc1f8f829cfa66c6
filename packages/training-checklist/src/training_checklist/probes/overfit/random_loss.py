import torch
from torch import Tensor

from training_checklist.instruments import SAME_DRAWS, OneBatch, Small, explanation, noise, of_function, trained_with
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(batch: OneBatch, limits: Limits) -> Hits:
    trial = explanation(batch, SAME_DRAWS)
    if trial is not None and not batch.distinct:  # else the inputs alone are drawn
        yield Hit(
            f"{batch.failure}; with the same random numbers in every step: {trial}. The losses of the first weights, "
            f"each with other random numbers, differ by {noise(batch):.3g}",
            of_function(type(batch.pl_module).training_step),
        )


class Shuffling(Small):
    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(answers, labels[torch.randperm(len(labels))])


class Together(Small):
    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        order = torch.randperm(len(labels))
        return super().loss(answers[order], labels[order])


PROBE = Probe(
    question="Is the loss of the same batch the same in every step (no random labels, masks or noise)?",
    why="training_step draws at random what is to be learnt: labels, masks, noise",
    may_be_wrong="diffusion draws in each step by design: what is to be memorised is another thing each time",
    fix=Fix("take out what draws at random", items=("reproducibility",)),
    detect=detect,
    faulty=trained_with(module=Shuffling),
    healthy=trained_with(module=Together),
)
