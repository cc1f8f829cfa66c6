from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import (
    MOVED,
    Call,
    Example,
    Listener,
    Reader,
    Step,
    Tracer,
    answered,
    answers,
    differences,
    isolate_rng,
    leaves,
    look,
    replaced,
    same,
    scores,
    seed_all,
    texts,
    trailing,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

ATTENTION = {"multi_head_attention_forward", "scaled_dot_product_attention", "_transformer_encoder_layer_fwd"}


class Attention(Listener):
    """Keeps where attention and embeddings of tokens were called."""

    def __init__(self) -> None:
        self.place = ""
        self.embedded: list[Tensor] = []

    def before(self, call: Call) -> None:
        if call.name in ATTENTION:
            self.place = self.place or str(call.place) or call.name
        elif call.name == "embedding" and call.is_functional:
            self.embedded.append(call.argument("input", 0))


def detect(step: Step, limits: Limits) -> Hits:
    """Put the tokens of each sequence into another order, but for the first and padding; of one answer each."""
    seen, looked, attention = answers(step), look(step), Attention()
    call, judged = seen.classification(), False
    with torch.no_grad(), isolate_rng(), Tracer(looked.module, attention):
        seed_all()
        looked.loss_of(seen.batch)
    if not attention.place:
        raise CannotJudge("a network without attention may count words on purpose")
    for path, leaf in leaves(seen.batch).items():
        if leaf.ndim != 2 or leaf.is_floating_point() or len(leaf) != len(call.input):
            continue
        if call.target.shape != leaf.shape[:1] or not any(same(leaf, each) for each in attention.embedded):
            continue
        whole = int((leaf.shape[1] - trailing(leaf)).min())
        if not bool((leaf[:, :whole].sort(1).values.diff(dim=1) == 0).any()):
            raise CannotJudge("no sequence has a token twice: they may be sets, which have no order")
        turned = leaf.clone()
        turned[:, 1:whole] = leaf[:, 1:whole].flip(1)
        other = answered(looked, replaced(seen.batch, {path: turned}))[1]
        if same(turned, leaf) or other is None or scores(other).shape != scores(call).shape:
            continue
        judged = True
        if not bool((differences(scores(call), scores(other)) > limits.answers_moved).any()):
            yield Hit(
                f"tokens of {path} in another order get the very same answer, though attention looks at them",
                call.place.beside(loader="train_dataloader", note=attention.place),
            )
    if not judged:
        raise CannotJudge("the batch has no sequence of tokens with one class for each")


class Labelled(Reader):
    """Tells the class of a sequence by attention; `places` is the weight of what its positions add."""

    def __init__(self, places: float = 0.0) -> None:
        super().__init__()
        self.places = places

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        seen = self.table(batch["tokens"]) + self.places * torch.linspace(-1, 1, 8)[:, None]
        mixed = functional.scaled_dot_product_attention(seen, seen, seen).mean(1)
        return functional.cross_entropy(self.head(torch.relu(self.first(mixed))), batch["length"] % 4)


PROBE = Probe(
    question="Do the outputs of a network with attention change with the order of the tokens?",
    why="attention alone knows no positions: the network sees a bag of words",
    fix=Fix("add an embedding of positions, or sines of them, to that of the tokens before the first attention"),
    thresholds={
        "answers_moved": replace(
            MOVED,
            faulty=Example(lambda: Labelled(places=2e-4), texts),
            healthy=Example(lambda: Labelled(places=3e-3), texts),
        )
    },
    detect=detect,
    faulty=Example(Labelled, texts),
    healthy=Example(lambda: Labelled(places=1.0), texts),
)
