import torch
from torch import Tensor, nn

from training_checklist.instruments import Call, Small, Step, StepListener
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

# Where a mask stands among the arguments of a function in torch.nn.functional.
MASKS = {
    "multi_head_attention_forward": {"key_padding_mask": 14, "attn_mask": 16},
    "scaled_dot_product_attention": {"attn_mask": 3},
}


class AddedMasks(StepListener):
    """Keeps (name, values, place) of each mask of floating point that attention adds to its scores."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.masks: list[tuple[str, Tensor, Place]] = []

    def after(self, call: Call) -> None:
        for name, position in MASKS.get(call.name, {}).items():
            mask = call.argument(name, position)
            if isinstance(mask, Tensor) and mask.is_floating_point():
                self.masks.append((name, mask.detach().unique(), call.place))


def detect(step: Step, limits: Limits) -> Hits:
    found = step.heard().masks
    if not found:
        raise CannotJudge("no attention is given a mask of floating-point numbers")
    for name, values, place in found:
        if values.tolist() == [0.0, 1.0]:
            yield Hit(f"{name} of attention holds 0.0 and 1.0, which are added to its scores", place)


class Attending(Small):
    """Attends to 8 tokens, of which the last two are padding."""

    left_out = staticmethod(lambda is_padding: is_padding.float())

    def __init__(self) -> None:
        super().__init__()
        self.place, self.attend = nn.Embedding(8, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.place.weight + inputs[:, :, None]
        is_padding = (torch.arange(8) > 5).expand(len(inputs), 8)
        seen = self.attend(tokens, tokens, tokens, key_padding_mask=self.left_out(is_padding))[0]
        return super().forward(seen.mean(1))


class Filled(Attending):
    left_out = staticmethod(lambda is_padding: is_padding.float().masked_fill(is_padding, -torch.inf))


PROBE = Probe(
    question="Does each mask that attention adds to its scores hold more than zeros and ones?",
    why="a mask of floating-point numbers is added: 1.0 makes a position 2.7 times as important, and leaves none out; "
    "False, True and -inf are what leaves positions out",
    fix=Fix("give it a mask of bool: for key_padding_mask True at the padding, such as mask.bool()"),
    listener=AddedMasks,
    detect=detect,
    faulty=Attending,
    healthy=Filled,
)
