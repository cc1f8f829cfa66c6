"""Each number of the lab that decides is needed as it is: a test changes it to both sides, as one does thresholds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset
from training_checklist.engines import slow_code
from training_checklist.finding import NOWHERE
from training_checklist.lab import (
    averages,
    label_fit,
    labels,
    one_batch,
    perfect_answers,
    scales,
    seen,
    step,
    stored,
    tables,
    tokens,
    trained_copies,
    whole_training,
)
from training_checklist.lab.data import Part
from training_checklist.probe import CannotJudge


@dataclass(frozen=True)
class Number:
    """A constant, and what it decides.

    Args:
        decides: what is asked of a case; the constant divides those with yes from those with no.
        factor: by which it may be changed until both cases have one answer.
        instead: what else stands in the way of the question, by name in the module of the constant.
    """

    module: ModuleType
    name: str
    decides: Callable[[Any], bool]
    yes: Any
    no: Any
    factor: int = 2
    instead: dict[str, Any] = field(default_factory=dict)


def can_judge(judge: Callable[[Any], Any], case: Any) -> bool:
    try:
        judge(case)
    except CannotJudge:
        return False
    return True


def is_average(off: float) -> bool:
    """Whether a step that goes a tenth of the way to a weight, and a share of itself elsewhere, is an average's."""
    found = SimpleNamespace(shares={}, others=set())
    way, elsewhere = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.1 * off])
    averages.Averages._compare(found, "weight", torch.zeros(2), 0.1 * way + elsewhere, (way,))
    return "weight" in found.shares


def texts(number: int, marked: int) -> Tensor:
    """Return as many texts of four tokens, which begin with token 1 where they are marked."""
    found = torch.arange(4 * number).view(number, 4) + 10
    found[:marked, 0] = 1
    return found


def has_tokens(number: int) -> bool:
    [found] = tokens.tokens_of(Part(None, chunks={"x": [texts(number, 0)]}), place="x")
    return len(found) > 0


def has_whole_counts(least: int) -> bool:
    """Whether counts of each label, of a part of the samples, are taken for those of all."""
    weights = SimpleNamespace(weights=[1.0, 1.0])
    weighted = SimpleNamespace(found={1: weights}, changing=())
    data = SimpleNamespace(seen=SimpleNamespace(weighted=weighted), roles=SimpleNamespace(ignored=-100))
    data.train, data.known = SimpleNamespace(samples=10**6), torch.tensor([0] * least + [1] * 1000)
    [found] = labels.class_weights(data)
    return bool(found.whole)


def standardised(off: float) -> Tensor:
    """Return a column of deviation 1 whose mean is off by a share of its standard error."""
    column = torch.randn(10_000, 1, generator=torch.Generator().manual_seed(0)).double()
    return (column - column.mean()) / column.std() + off / 100


def drifts(part: int) -> bool:
    """Whether a change between parts of so many samples, to and fro, is seen within a split of 64."""
    values = torch.arange(64).div(part, rounding_mode="floor").remainder(2).float()
    found = scales.scale_of(values.view(64, 1))
    return max(found.means) - min(found.means) > 0.5


def is_asked_for(numbers: int, values: int, roles: Any) -> bool:
    column = torch.arange(64).remainder(values).float()
    part = Part(None, values={"y": column[:, None].expand(64, numbers)})
    return bool(scales.numbers_of_targets(part, roles))


TARGET, WRITTEN_OUT = SimpleNamespace(target="y"), SimpleNamespace(target=None, compared={"y"})


def rows(different: int) -> list[Tensor]:
    found = [torch.zeros(64) for _ in range(4)]
    for place, row in enumerate(found):
        row[:different] = place
    return found


def has_learnt(share: float) -> bool:
    return trained_copies.has_learnt(None, SimpleNamespace(before=1.0, after=share), [], [])


def are_too_few(samples: int) -> bool:
    batch = {"x": torch.rand(samples, 3), "y": torch.rand(samples)}
    return trained_copies.too_small([batch], ["batch['y']"], sure=4.0)


def is_sure(share: float) -> bool:
    """Whether a right answer among 1,000 classes gets all of a softmax's probability but for this."""
    call = SimpleNamespace(name="cross_entropy", input=torch.rand(1, 1000), target=torch.tensor([0]), num_classes=1000)
    call.options, call.outside, call.ignored = {}, False, -100
    right, _ = perfect_answers.answers(call)
    return 1 - float(right(call.input).double().softmax(1)[0, 0]) < share


def counts_ignored(change: float) -> bool:
    found = perfect_answers.Answered("validation_step", one_elsewhere={"val/acc": 0.5})
    found.other_elsewhere = {"val/acc": 0.5 * (1 + change)}
    return bool(found.counting_ignored)


def has_diverged(last: float) -> bool:
    return one_batch.OneBatch.has_risen_to(SimpleNamespace(losses=[1.0]), last)


def is_nearly_constant(apart: float) -> bool:
    """Whether answers differ among samples whose loss is so far apart from that of the best answer for all."""
    batch = SimpleNamespace(is_constant=True, share=1 - apart)
    return one_batch.OneBatch.is_nearly_constant.fget(batch)


def takes_most(share: float) -> bool:
    """Whether a function of the project is to blame for calls of which it takes a share of the time."""
    spent = {("~", 0, "<built-in>"): 1.0, (__file__, 1, "load"): share}
    known = {name: (1, 1, seconds, seconds, {}) for name, seconds in spent.items()}
    return slow_code.slowest(known) != NOWHERE


def has_columns(numbers: int) -> bool:
    """Whether what a linear layer takes so many numbers of is a table, whose columns are looked at one by one."""
    place = SimpleNamespace(module="first")
    value = torch.rand(4, numbers)
    entered = SimpleNamespace(leaf="x", operation="linear", value=value, place=place, beside=set())
    held = SimpleNamespace(entrances=SimpleNamespace(found=[entered]), criteria=SimpleNamespace(calls=[]))
    held.ranges, held.entering, held.restored = {}, [], False
    seen.Seen._layers(held, SimpleNamespace(input="x"), None)
    return bool(held.ranges["x", "first"].columns)


def batch_of(size: int) -> Any:
    return SimpleNamespace(size=size, batch=torch.rand(size, 3), again=lambda batch, size: batch)


NUMBERS = [
    Number(whole_training, "LEAST", partial(can_judge, whole_training.ends), [0] * 9, [0] * 8),
    Number(whole_training, "PARTS", partial(can_judge, whole_training.parts), [0] * 8, [0] * 7),
    Number(averages, "OFF", is_average, 0.008, 0.012),
    Number(tokens, "MARKS", lambda marked: len(tokens.at_ends([texts(100, marked)])) == 2, 70, 60),
    Number(tokens, "LEAST", has_tokens, 50, 49),
    Number(labels, "ENOUGH", has_whole_counts, 20, 19, instead={"labels": lambda data, split: data.known}),
    Number(tables, "EXACT", lambda off: bool(tables.is_standard(standardised(off))), 0.008, 0.012),
    Number(scales, "LEAST", lambda number: scales.scale_of(torch.rand(number, 2)) is not None, 32, 31),
    Number(scales, "BLOCKS", drifts, 16, 8),
    Number(scales, "MOST_NUMBERS", lambda numbers: is_asked_for(numbers, 64, TARGET), 8, 9),
    Number(scales, "MASKS", lambda values: is_asked_for(1, values, WRITTEN_OUT), 21, 20),
    Number(stored, "MANY_NUMBERS", lambda number: stored.are_unlikely_to_repeat(rows(number)), 16, 15),
    Number(stored, "WORDS", stored.is_text, "the cat sat down", "the cat sat"),
    Number(stored, "SMALLEST_ROW", lambda size: stored.raw_row(TensorDataset(torch.rand(9, size))) is not None, 4, 3),
    Number(trained_copies, "LEARNT", has_learnt, 0.45, 0.55, instead={"effect": lambda *_: (100.0, 10.0)}),
    Number(trained_copies, "CORRELATED", are_too_few, 63, 64),
    Number(perfect_answers, "SURE", is_sure, 1e-9, 1e-12),
    Number(perfect_answers, "SAME", counts_ignored, 1.5e-5, 0.7e-5),
    Number(slow_code, "MOST", takes_most, 0.6, 0.4),
    Number(step, "LEAST", lambda size: can_judge(step.smaller, batch_of(size)), 3, 2),
    Number(seen, "MOST_COLUMNS", has_columns, 256, 257),
    Number(label_fit, "CHANCE", lambda tosses: label_fit.is_less(torch.tensor([[0, tosses], [0, 0]]), 0.5), 20, 19),
    Number(one_batch, "RISEN", has_diverged, 1.6, 1.4),
    Number(one_batch, "SAME", is_nearly_constant, 1.5e-5, 0.7e-5),
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda each: f"{each.module.__name__}.{each.name}")
def test_number_divides_what_it_is_there_for(monkeypatch, number):
    for name, other in number.instead.items():
        monkeypatch.setattr(number.module, name, other)
    value = getattr(number.module, number.name)

    def decided(by):
        monkeypatch.setattr(number.module, number.name, by)
        return bool(number.decides(number.yes)), bool(number.decides(number.no))

    assert decided(value) == (True, False)
    changed = [type(value)(other) for other in (value * number.factor, value / number.factor)]
    assert {*map(decided, changed)} == {(True, True), (False, False)}
