from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import SUM, Call, Example, Small, Step, StepListener
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


class CTC(StepListener):
    """Keeps what each call of ctc_loss is given."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.given: list[tuple[Call, Tensor]] = []

    def before(self, call: Call) -> None:
        if call.name == "ctc_loss" and call.is_functional and call.place.file:
            self.given.append((call, call.argument("log_probs", 0).detach().float()))


def detect(step: Step, limits: Limits) -> Hits:
    calls = step.heard().given
    if not calls:
        raise CannotJudge("the step calls no ctc_loss")
    for call, scores in calls:
        targets, blank = call.argument("targets", 1), call.argument("blank", 4, 0)
        off = float(scores.logsumexp(-1).abs().max())
        if off > limits.probability_sum:
            yield Hit(f"the logarithms that ctc_loss gets are off by {off:.3g} from those of probabilities", call.place)
        lengths = call.argument("target_lengths", 3)
        if targets.ndim == 2:  # (N, S): what is behind a target's length is filling
            counts = torch.arange(targets.shape[1]) < torch.as_tensor(lengths)[:, None].cpu()
            targets = targets.cpu()[counts]
        blanks = int((targets == blank).sum())
        if blanks:
            yield Hit(f"{blanks} of {targets.numel()} targets are {blank}, which is the blank of ctc_loss", call.place)


class Speech(Small):
    """Four labels, none of which is the blank, in 8 steps of one number each."""

    scale, blank = 0.0, 0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = torch.nn.Linear(1, 16), torch.nn.Linear(16, 5)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        logits = self(batch[0].unsqueeze(-1))
        known = logits.log_softmax(-1) - self.scale
        lengths = torch.full((len(logits),), 8), torch.full((len(logits),), 2)
        return functional.ctc_loss(known.transpose(0, 1), batch[1], *lengths, blank=self.blank)


class Unnormalised(Speech):
    scale = 0.02


class Normalised(Speech):
    scale = 0.005


def spoken() -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(1, 5, (32, 2))), batch_size=16)


def example(kind: type) -> Any:
    return Example(kind, spoken)


PROBE = Probe(
    question="Does ctc_loss get log-probabilities over the classes, and targets among which there is no blank?",
    why="its value is no likelihood then, and may fall without bound, or labels that it takes for blanks are never "
    "learnt (torch.nn.CTCLoss)",
    fix=Fix("log_softmax(-1) before it, and a class of its own for the blank, beside those of the labels"),
    thresholds={"probability_sum": SUM},
    listener=CTC,
    detect=detect,
    faulty=example(Unnormalised),
    healthy=example(Normalised),
)
