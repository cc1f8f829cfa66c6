import torch
from torch import Tensor, nn

from training_checklist.instruments import PaddingMasks, Small, Step, is_whole, leaves
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    ids = [leaf for leaf in leaves(step.batch).values() if is_whole(leaf)]
    for mask in step.heard().masks():
        if mask.inverted or mask.tokens is None:
            continue
        kept = (~mask.left_out).long()
        between = mask.left_out & (kept.cumsum(1) > 0) & (kept.flip(1).cumsum(1).flip(1) > 0)
        found = mask.tokens[between].unique()
        if not bool((mask.left_out & ~between).any()):  # no sequence is padded: these are tokens that a step has drawn
            continue
        # Of several ids it is no padding that is left out; one that no batch holds is put there by the step itself.
        if len(found) == 1 and any(bool((leaf == found).any()) for leaf in ids):
            rows = f"{int(between.any(1).sum())} of {len(between)} sequences"
            yield Hit(f"padding stands between other tokens in {rows}: token {int(found)}", mask.place)
            return


class Between(Small):
    """Has words of ids 0 to 4, and 0 for padding."""

    ids = (1, 2, 0, 4, 1, 2, 0, 0)

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 8, padding_idx=0)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.table(torch.tensor(self.ids).expand(len(inputs), 8))
        return super().forward(inputs + tokens.mean(1))


class AtTheEnd(Between):
    ids = (1, 2, 3, 4, 1, 2, 0, 0)


class Drawn(Between):
    """Has put another token in the place of one, as masked language models do, and it is the padding's."""

    ids = (1, 2, 0, 4, 1, 2, 3, 4)


PROBE = Probe(
    question="Does the padding's token id stand at the ends of sequences only, and never between other tokens?",
    why="a token of the text, such as that for unknown words, has the id of the padding, and is left out with it",
    severity=WARNING,
    fix=Fix("give the padding an id of its own"),
    listener=PaddingMasks,
    detect=detect,
    faulty=Between,
    healthy=AtTheEnd,
    also_healthy=(Drawn,),
)
