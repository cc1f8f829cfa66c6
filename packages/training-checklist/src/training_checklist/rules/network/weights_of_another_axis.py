from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import OtherDimension, ProductsOfWeights, by
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(products: ProductsOfWeights, limits: Any) -> Iterator[Hit]:
    for each in products.found:
        yield Hit(
            f"softmax is over dim {each.dim} of {by(each.shape)}, and {each.criterion} adds up over dim "
            f"{len(each.shape) - 1}: the weights of one sum do not sum to 1",
            each.place,
        )


RULE = Rule(
    id="network/weights-of-another-axis",
    item="trace",
    question="Are the weights of a weighted mean normalised over what is added up?",
    why="queries compete for a key instead of keys for a query: a position may get nothing, or know of later ones",
    severity=WARNING,
    evidence=ProductsOfWeights,
    judge=judge,
    fix=Fix("softmax(dim=-1) of scores that are multiplied with values: scores.softmax(-1) @ values"),
    faulty=lambda: ProductsOfWeights([OtherDimension("softmax", (16, 12, 20), 1, "matmul")]),
    healthy=lambda: ProductsOfWeights([]),
)
