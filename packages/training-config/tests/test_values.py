import enum
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from omegaconf import OmegaConf
from pydantic import Field, PositiveInt
from training_config.check import find_problems
from training_config.values import Fraction, choices, json_schema, misfit


class Colour(enum.Enum):
    RED = 1


class Net:
    """Stands for an object that a config builds."""


@pytest.mark.parametrize(
    ("annotation", "fitting"),
    [
        (int, [0, -3]),
        (float, [1, 0.5, float("inf")]),
        (bool, [True]),
        (str, ["text", ""]),
        (int | None, [None, 2]),
        (Path, ["outputs/run"]),
        (tuple[int, int], [[2, 3]]),
        (Literal["min", "max"], ["min"]),
        (Fraction, [0, 1, 0.5]),
        (PositiveInt, [1]),
        (Colour, ["RED"]),
        (Net, ["anything", 3]),
        (Callable[[int], int], ["anything"]),
        (Any, [object, None]),
    ],
)
def test_value_that_may_be_meant_fits(annotation, fitting):
    assert [misfit(value, annotation) for value in fitting] == [None] * len(fitting)


@pytest.mark.parametrize(
    ("annotation", "value", "wanted"),
    [
        (int, "3", "a whole number"),
        (int, True, "a whole number"),
        (int, 2.5, "a whole number"),
        (bool, 1, "true or false"),
        (float, "1e-3", "a number"),
        (str, 3, "text"),
        (int | None, "many", "a whole number or null"),
        (Literal["min", "max", "last"], "best", "min, max or last"),
        (Fraction, 1.5, "a number from 0 to 1"),
        (PositiveInt, 0, "a whole number of at least 1"),
        (Annotated[float, Field(gt=0)], 0, "a number greater than 0"),
        (Net, None, "Net"),
    ],
)
def test_value_that_cannot_be_meant_is_told_in_words_what_fits(annotation, value, wanted):
    assert misfit(value, annotation) == wanted


def test_choices_and_schema_come_from_the_same_annotation():
    assert choices(Literal["min", "max"] | None) == ["min", "max"]
    assert json_schema(Fraction) == {"type": "number", "minimum": 0, "maximum": 1}
    assert json_schema(Any) == {}


def test_values_are_held_against_annotations_of_keys_and_of_the_arguments_of_a_target():
    cfg = OmegaConf.create({"mode": "best", "layer": {"_target_": "torch.nn.Dropout", "p": 3}, "other": 1})
    from torch.nn import Dropout

    assert find_problems(cfg, {"mode": Literal["min", "max"], "absent": int}, {Dropout: {"p": Fraction}}) == [
        "layer.p=3 must be a number from 0 to 1",
        "mode=best must be min or max",
    ]
