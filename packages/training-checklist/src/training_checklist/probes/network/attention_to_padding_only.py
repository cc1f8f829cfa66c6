import torch
from torch import Tensor, nn

from training_checklist.instruments import PaddingMasks, Small, Step
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for mask in step.heard().masks():
        if mask.inverted:
            yield Hit("key_padding_mask leaves out every token but the padding", mask.place)


class Inverted(Small):
    """Attends to 8 tokens, of which the last two are padding."""

    left_out = staticmethod(lambda ids: ids != 0)

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 8, padding_idx=0)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        ids = torch.tensor([1, 2, 3, 4, 1, 2, 0, 0]).expand(len(inputs), 8)
        tokens = self.table(ids) + inputs[:, :, None]
        seen = self.attend(tokens, tokens, tokens, key_padding_mask=self.left_out(ids))[0]
        return super().forward(seen.mean(1))


class Masked(Inverted):
    left_out = staticmethod(lambda ids: ids == 0)


PROBE = Probe(
    question="Is key_padding_mask True at the padding, and not at the tokens?",
    why="in key_padding_mask True means: leave this one out; attention looks at what carries no meaning",
    fix=Fix("invert the mask: key_padding_mask=(ids == padding_idx)"),
    listener=PaddingMasks,
    detect=detect,
    faulty=Inverted,
    healthy=Masked,
)
